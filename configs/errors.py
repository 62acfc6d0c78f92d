"""The one exception that a user's mistake raises."""


class UserError(Exception):
  """Something outside the code is wrong: a config, an address, a file, an environment.

  The message is one sentence that says what is wrong and what to do. Entry points print it without a traceback and exit
  with `EXIT_CODE`.
  """

  EXIT_CODE = 2

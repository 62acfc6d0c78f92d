"""The exceptions that cross rooms: one for a user's mistake, and how waiting for the server can end."""


class UserError(Exception):
  """Something outside the code is wrong: a config, an address, a file, an environment.

  The message is one sentence that says what is wrong and what to do. Entry points print it without a traceback and exit
  with `EXIT_CODE`.
  """

  EXIT_CODE = 2


class ServerLost(Exception):
  """The replay server did not answer in time; the message says who waited for what."""


class Stopped(Exception):
  """The role was told to stop while it waited."""

"""The exceptions that cross rooms: for a user's mistake, and for how waiting ends; and what to say of an unknown name."""

import difflib
from collections.abc import Iterable


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


def name_hint(name: str, known: Iterable[str], otherwise: str = "there are") -> str:
  """The end of the sentence about a name that is not known: the nearest that is, or else all of them.

  Args:
    name: as it was given.
    known: names.
    otherwise: what stands before all of them.
  """
  names = list(known)
  near = difflib.get_close_matches(name, names, n=1)
  return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(names)}."

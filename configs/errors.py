"""The exceptions that cross rooms, for a user's mistake and for a wait that fails, and the hint for an unknown name."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
  """Something outside the code is wrong: a config, an address, a file, an environment.

  The message is one sentence that says what is wrong and what to do. Entry points print it without a traceback and exit
  with `ExitCode.MISTAKE`.

  Attributes:
    trace: the traceback of the user's own code, if that is what failed, as text that ends with a line break; else empty.
  """

  def __init__(self, sentence: str, trace: str = ""):
    super().__init__(sentence)
    self.trace = trace


class NoServer(UserError):
  """No replay server answers at an address: it is wrong, or the server is away for longer than it is waited for."""


class ServerAway(NoServer):
  """The server of a run directory does not answer: the directory is right, so the same command is worth another try."""


class ServerLost(Exception):
  """The replay server did not answer in time; the message says who waited for what."""


class EpisodesLost(Exception):
  """A world lost its open episodes, as a console does that dies: its next `reset` begins new ones. The message says why."""


class Stopped(Exception):
  """The role was told to stop while it waited."""


class RunEnded(Stopped):
  """The run that was to be joined has ended, which is no mistake; the message says so."""


def name_hint(name: str, known: Iterable[str], otherwise: str = "there are") -> str:
  """The end of an error message about an unknown name: suggests the nearest known name, or lists all of them.

  Args:
    name: the unknown name.
    known: the names to choose from.
    otherwise: words that introduce the list.
  """
  names = list(known)
  near = difflib.get_close_matches(name, names, n=1)
  return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(names)}."

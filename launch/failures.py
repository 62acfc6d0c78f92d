"""The exception for a run that failed, and what a terminal shows of a failure."""


class RunFailed(Exception):
  """A role failed; the message tells the user why, in a sentence.

  Attributes:
    exit_code: of the command.
    trace: the traceback of the user's own code, if that is what failed; else empty.
  """

  def __init__(self, sentence: str, exit_code: int, trace: str = ""):
    super().__init__(sentence)
    self.exit_code = exit_code
    self.trace = trace


def explain(sentence: str, trace: str, verbose: bool) -> str:
  """What a terminal shows of a failure: its sentence, and the traceback of the user's own code only if it is asked for.

  Args:
    sentence: that explains it.
    trace: the traceback; empty if no code of the user's failed.
    verbose: whether to show it.
  """
  if not trace:
    return sentence
  return trace + sentence if verbose else f"{sentence} (--verbose shows the traceback.)"

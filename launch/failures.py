"""The exception for a run that failed."""


class RunFailed(Exception):
  """A role failed; the message tells the user why, in a sentence.

  Attributes:
    exit_code: of the command.
  """

  def __init__(self, sentence: str, exit_code: int):
    super().__init__(sentence)
    self.exit_code = exit_code

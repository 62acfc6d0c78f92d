"""A run that failed while it went on."""


class RunFailed(Exception):
  """A role failed; the message is a sentence for people.

  Attributes:
    exit_code: for the command.
  """

  def __init__(self, sentence: str, exit_code: int):
    super().__init__(sentence)
    self.exit_code = exit_code

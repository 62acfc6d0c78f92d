"""Which policies an evaluator takes that goes by gradient steps: the first at or after each multiple of a period."""


class UpdateSchedule:
  """Takes each multiple of a period at most once, and counts those that are passed over.

  An evaluator that is slower than the learner, or that was away, finds a policy beyond several multiples: it takes the newest,
  and passes the others over.

  Attributes:
    passed_over: how many multiples were, in all.
  """

  def __init__(self, period_updates: int):
    """Makes a schedule of which no multiple was taken; `period_updates` are gradient steps."""
    self.passed_over = 0
    self._period = period_updates
    self._taken = 0

  def resume(self, gradient_steps: int) -> None:
    """Notes that the last policy that counts was one of so many gradient steps; 0 for none."""
    self._taken = gradient_steps // self._period

  @property
  def next_gradient_steps(self) -> int:
    """From how many gradient steps on a policy is due."""
    return (self._taken + 1) * self._period

  def passes_over(self, gradient_steps: int) -> int:
    """How many multiples an evaluation of a policy of so many gradient steps, which is due, would pass over."""
    return gradient_steps // self._period - self._taken - 1

  def take(self, gradient_steps: int) -> None:
    """Notes that a policy of so many gradient steps, which was due, has been evaluated."""
    self.passed_over += self.passes_over(gradient_steps)
    self._taken = gradient_steps // self._period

"""Values that change over a run."""


def linear(first: float, final: float | None, progress: float) -> float:
  """The value between `first` (at a progress of 0) and `final` (from a progress of 1 on); a `final` of None keeps `first`."""
  return first if final is None else first + (final - first) * min(1.0, progress)

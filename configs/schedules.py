"""Values that change over a run."""


def linear(first: float, final: float | None, progress: float) -> float:
  """A value on its way from `first` to `final`, which it has from a progress of 1 on; None stays at the first."""
  return first if final is None else first + (final - first) * min(1.0, progress)

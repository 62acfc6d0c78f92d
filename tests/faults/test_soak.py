"""How the soak measures growth."""

import pytest

from tests.faults.soak import Sample, growth


def _sample(minute: int, megabytes: float, life: int) -> Sample:
  return Sample(float(minute), {"server": megabytes}, {"server": life}, {}, 0, 0)


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_growth_is_the_slope_within_the_lives_after_their_warm_up(slope: float) -> None:
  samples = []
  for minute in range(60):
    life, age = divmod(minute, 20)
    # Each life begins elsewhere, and its first minutes rise steeply.
    level = 500 - 20 * life + 30 * min(age, 4)
    samples.append(_sample(minute, level + slope * age, life))
  assert growth(samples, "server") == pytest.approx(60 * slope)
  assert growth(samples, "learner") == 0.0

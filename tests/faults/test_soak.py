"""How the soak measures growth."""

import pytest

from tests.faults.soak import Sample, growth


@pytest.mark.parametrize(("role", "warm_up"), [("server", 9), ("learner", 4)])
@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_growth_is_the_slope_within_the_lives_after_their_warm_up(slope: float, role: str, warm_up: int) -> None:
  samples = []
  for minute in range(60):
    life, age = divmod(minute, 20)
    # Each life begins elsewhere, and its first minutes rise steeply.
    level = 500 - 20 * life + 30 * min(age, warm_up)
    samples.append(Sample(float(minute), {role: level + slope * age}, {role: life}, {}, 0, 0))
  assert growth(samples, role) == pytest.approx(60 * slope)
  assert growth(samples, "evaluator") == 0.0

"""From observations to actions: warm-up, random actions, and policies that several environments share."""

from collections.abc import Sequence

import numpy as np
import pytest
from acme import specs

from actors.behaviour import Behaviour, Greedy, WarmUp
from actors.engine import Choice, choose_actions
from networks import NO_EXTRAS, Extras

SPEC = specs.DiscreteArray(4)


class _Policy:
  """Takes `action + observation`, plus 100 times a random number where it explores; notes its batches."""

  def __init__(self, action: int = 3, noisy: bool = False):
    self.batches: list[list[float]] = []
    self._action = action
    self._noisy = noisy

  def best(self, observations: np.ndarray) -> np.ndarray:
    return self._action + observations

  def explore(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Extras]:
    self.batches.append(observations.tolist())
    best = self.best(observations)
    if not self._noisy:
      return best, NO_EXTRAS
    return best + 100 * rng.random(len(best)), {"mean": best, "pair": np.stack([best, -best], axis=-1)}


def _behaviour(
  policy: _Policy | Greedy | None, seed: int = 0, epsilon: float = 0.0, random_steps: int = 0
) -> Behaviour:
  return Behaviour(SPEC, np.random.default_rng(seed), policy, 1, epsilon, WarmUp(random_steps))


def _actions(choices: Sequence[Choice]) -> list[float]:
  return [float(choice.action) for choice in choices]


def test_a_warm_up_counts_the_steps_of_other_workers_and_its_own() -> None:
  warm_up = WarmUp(10)
  assert [warm_up.take() for _ in range(4)] == [True] * 4
  warm_up.note(2)  # Of which the server has seen two.
  assert warm_up.steps_left == 6
  warm_up.note(7)
  assert [warm_up.take() for _ in range(5)] == [True] * 3 + [False] * 2
  warm_up.note(7)
  assert not warm_up.take()


@pytest.mark.parametrize(
  ("epsilon", "shares"),
  # Of a fifth of the actions a quarter are 3 by chance.
  [(0.0, [0, 0, 0, 1]), (0.2, [0.05, 0.05, 0.05, 0.85]), (1.0, [0.25] * 4)],
)
def test_a_share_of_the_actions_is_random(epsilon: float, shares: list[float]) -> None:
  behaviour = _behaviour(_Policy(), seed=1, epsilon=epsilon)
  taken = [int(choose_actions([behaviour], [np.array(0)])[0].action) for _ in range(4_000)]
  assert np.bincount(taken, minlength=4) / 4_000 == pytest.approx(shares, abs=0.03)


def test_a_behaviour_acts_at_random_in_the_warm_up_and_without_a_policy() -> None:
  policy = _Policy(action=9)
  warming, without = _behaviour(policy, random_steps=2), _behaviour(None)
  chosen = [_actions(choose_actions([warming, without], [np.array(0)] * 2)) for _ in range(4)]
  assert [warmed == 9 for warmed, _ in chosen] == [False, False, True, True]
  assert all(action in range(4) for _, action in chosen)


def test_environments_share_the_forward_pass_of_their_policy_and_get_their_own_actions() -> None:
  tens, hundreds = _Policy(10), _Policy(100)
  behaviours = [_behaviour(policy) for policy in (tens, hundreds, tens, None, tens)]
  choices = choose_actions(behaviours, [np.array(float(index)) for index in range(5)])
  *_, at_random, last = _actions(choices)
  assert _actions(choices)[:3] == [10, 101, 12]
  assert at_random in range(4)
  assert last == 14
  assert (tens.batches, hundreds.batches) == ([[0, 2, 4]], [[1]])


def test_extras_are_those_of_each_action_and_a_random_action_has_none() -> None:
  noisy, quiet = _Policy(10, noisy=True), _Policy(20)
  behaviours = [_behaviour(policy) for policy in (noisy, quiet, None, noisy)]
  first, second, third, fourth = choose_actions(behaviours, [np.array(float(index)) for index in range(4)])
  assert float(first.extras["mean"]) == 10
  assert float(fourth.extras["mean"]) == 13
  assert fourth.extras["pair"].tolist() == [13, -13]
  assert second.extras is third.extras is NO_EXTRAS


def test_a_shared_policy_takes_its_noise_from_the_first_of_its_environments() -> None:
  policy = _Policy(0, noisy=True)
  two = choose_actions([_behaviour(policy, seed=5), _behaviour(policy, seed=6)], [np.array(0.0)] * 2)
  expected = 100 * np.random.default_rng(5).random(2)
  assert _actions(two) == pytest.approx(expected)


def test_a_greedy_policy_explores_without_noise_or_extras() -> None:
  (choice,) = choose_actions([_behaviour(Greedy(_Policy(10, noisy=True)))], [np.array(1.0)])
  assert float(choice.action) == 11
  assert choice.extras is NO_EXTRAS

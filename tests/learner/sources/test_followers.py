"""What follows the rows of a memory source: scales, closeness and V-RACER's estimates, through the source itself."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from configs.refer import ReferConfig
from learner.gradients.controls import (
  ACTION_VALUE,
  BETA,
  DIVERGENCE,
  IS_END,
  LARGEST_RATIO,
  LOG_RATIO,
  NEXT_VALUE,
  Q_RET,
  REWARD_SCALE,
  VALUE,
)
from learner.sources.followers import (
  SCALE_PERIOD_UPDATES,
  Closeness,
  FirstMoments,
  ReturnEstimates,
  ScaledRewards,
  make_followers,
)
from replay_memory.kernels import NONE
from replay_memory.memory import ReplayMemory
from replay_memory.plan import make_plan
from replay_server.contract.layout import run_codec
from tests.learner.algorithms.behaving import SPEC, make_v_racer_run, random_rows

_RUN = make_v_racer_run(refer=ReferConfig(rules="both", limit=4.0, annealing=0.0), scale_rewards=True)
_CODEC = run_codec(_RUN, SPEC)
_NORMALIZED = dataclasses.replace(_RUN.network, normalize_observations=True, normalize_by="first_rows")


class _Network:
  """Gives each row the value 10 times its step; notes what it was asked to normalise by."""

  def __init__(self) -> None:
    self.normalized: list[int] = []

  def evaluate(self, rows: np.ndarray) -> Mapping[str, np.ndarray]:
    steps = _CODEC.unpack(rows)["step"].astype(np.float32)
    return {
      VALUE: 10 * steps,
      ACTION_VALUE: 10 * steps,
      NEXT_VALUE: 10 * (steps + 1),
      LOG_RATIO: 0 * steps,
      DIVERGENCE: 0 * steps + 0.5,
    }

  def normalize(self, rows: np.ndarray) -> None:
    self.normalized.append(len(rows))


def _episode(length: int, episode: int, rewards: float, ended: str) -> np.ndarray:
  rows = random_rows(_RUN, np.random.default_rng(episode), length)
  made = _CODEC.unpack(rows)
  packer = _CODEC.packer()
  return np.stack(
    [
      packer.pack(
        {name: values[step] for name, values in made.items()}
        | {
          "reward": np.float32(rewards),
          "discount": np.float32(0.0 if ended == "terminated" and step == length - 1 else 1.0),
          "steps": 1,
          "episode": episode,
          "step": step,
          "terminated": ended == "terminated" and step == length - 1,
          "truncated": ended == "truncated" and step == length - 1,
        }
      )
      for step in range(length)
    ]
  )


def _memory() -> ReplayMemory:
  return ReplayMemory(make_plan(_RUN, _CODEC.width), _CODEC)


def test_a_run_gets_the_followers_that_it_asks_for() -> None:
  kinds = [type(follower) for follower in make_followers(_RUN, _memory(), _CODEC).values()]
  assert kinds == [ScaledRewards, Closeness, ReturnEstimates]
  config = dataclasses.replace(_RUN, network=_NORMALIZED)
  assert list(make_followers(config, _memory(), _CODEC)) == ["moments", "rewards", "closeness", "returns"]


def test_observations_are_normalised_by_the_first_rows_alone() -> None:
  memory, network = _memory(), _Network()
  memory.add(_episode(7, 1, 1.0, "terminated"))
  moments = FirstMoments(memory)
  for updates in (0, 1, 1_000):
    moments.begin(updates, network)
  assert network.normalized == [7]


def test_rewards_are_measured_before_the_first_update_and_every_thousand() -> None:
  memory, network = _memory(), _Network()
  rewards = ScaledRewards(memory, _CODEC)
  memory.add(_episode(3, 1, 3.0, "terminated"))
  rewards.begin(0, network)
  assert rewards.controls() == {REWARD_SCALE: pytest.approx(3.0)}
  memory.add(_episode(9, 2, 5.0, "terminated"))
  rewards.begin(SCALE_PERIOD_UPDATES - 1, network)
  assert rewards.controls()[REWARD_SCALE] == pytest.approx(3.0)
  rewards.begin(SCALE_PERIOD_UPDATES, network)
  expected = np.sqrt((3 * 9 + 9 * 25) / 12)
  assert rewards.controls()[REWARD_SCALE] == pytest.approx(expected)
  again = ScaledRewards(memory, _CODEC)
  again.restore(rewards.state())
  memory.add(_episode(9, 3, 50.0, "terminated"))
  again.begin(SCALE_PERIOD_UPDATES + 1, network)
  assert again.controls()[REWARD_SCALE] == pytest.approx(expected)


def test_beta_follows_the_share_of_far_steps_in_memory() -> None:
  memory = _memory()
  closeness = Closeness(_RUN, memory)
  memory.add(_episode(10, 1, 0.0, "terminated"))
  slots = memory.contents(0)
  zeros = np.zeros((1, 2), np.float32)
  closeness.feed_back(slots[None, :2], {LOG_RATIO: zeros + 3.0, DIVERGENCE: zeros + 1.0})
  # Two of ten are far, more than a tenth: beta falls by the learning rate's share.
  assert closeness.controls() == {BETA: pytest.approx(0.99), LARGEST_RATIO: 5.0, "rate_scale": 1.0}
  assert closeness.metrics()["refer_far_share"] == pytest.approx(0.2)
  assert closeness.metrics()["refer_mean_divergence"] == pytest.approx(0.2)
  closeness.feed_back(slots[None, :2], {LOG_RATIO: zeros, DIVERGENCE: zeros})
  assert closeness.beta == pytest.approx(0.99 * 0.99 + 0.01)
  again = Closeness(_RUN, _memory())
  again.restore(closeness.state())
  assert again.beta == closeness.beta


def test_learning_rates_are_annealed_where_a_rule_acts() -> None:
  for rules, scale in (("watched", 1.0), ("first", 0.5), ("both", 0.5)):
    config = make_v_racer_run(refer=ReferConfig(rules=rules, annealing=0.1))  # type: ignore[arg-type]
    memory = ReplayMemory(make_plan(config, _CODEC.width), _CODEC)
    memory.add(_episode(10, 1, 0.0, "terminated"))
    assert Closeness(config, memory).controls()["rate_scale"] == scale


def test_the_authors_code_moves_beta_by_batch_over_memory_size() -> None:
  refer = ReferConfig(rules="both", beta_rate="batch_share")
  config = make_v_racer_run(refer=refer, batch_size=5)
  memory = ReplayMemory(make_plan(config, _CODEC.width), _CODEC)
  closeness = Closeness(config, memory)
  memory.add(_episode(10, 1, 0.0, "terminated"))
  far = {LOG_RATIO: np.full((1, 10), 9.0, np.float32), DIVERGENCE: np.zeros((1, 10), np.float32)}
  closeness.feed_back(memory.contents(0)[None], far)
  assert closeness.beta == pytest.approx(1 - 0.1 * 5 / 10)


def test_rows_that_are_gone_are_passed_over() -> None:
  memory = _memory()
  closeness = Closeness(_RUN, memory)
  memory.add(_episode(3, 1, 0.0, "terminated"))
  slots = np.array([[NONE, memory.contents(0)[0]]])
  closeness.feed_back(slots, {LOG_RATIO: np.array([[9.0, 0.5]], np.float32), DIVERGENCE: np.zeros((1, 2), np.float32)})
  assert closeness.ratios.log_ratio[memory.contents(0)].tolist() == [0.5, 0.0, 0.0]


def test_new_episodes_are_estimated_before_a_block_and_follow_the_scale_of_rewards() -> None:
  memory, network = _memory(), _Network()
  followers = make_followers(_RUN, memory, _CODEC)

  def begin(updates: int) -> np.ndarray:
    for follower in followers.values():
      follower.begin(updates, network)
    slots = memory.contents(0)
    return followers["returns"].columns(slots)[Q_RET]

  memory.add(_episode(2, 1, 2.0, "truncated"))
  # r / 2 = 1 for each step, gamma = .9, V(s_T) = 20; ratios are 1, so V_tbc is Q_ret.
  assert begin(0) == pytest.approx([1 + 0.9 * 19, 1 + 0.9 * 20], rel=1e-5)
  memory.add(_episode(1, 2, 0.0, "terminated"))
  assert begin(1) == pytest.approx([1 + 0.9 * 19, 1 + 0.9 * 20, 0.0], rel=1e-5)
  assert followers["returns"].columns(memory.contents(0))[IS_END].tolist() == [0, 1, 0]
  scale = np.sqrt(8 / 3)
  last = 2 / scale + 0.9 * 20
  assert begin(SCALE_PERIOD_UPDATES) == pytest.approx([2 / scale + 0.9 * last, last, 0.0], rel=1e-5)

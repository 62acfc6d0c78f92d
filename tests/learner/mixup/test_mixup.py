"""The hook between draw and learner: which rows are mixed with which, by what shares, and what it counts."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from acme import specs
from hypothesis import given, settings

from configs import RunConfig, UserError, load_config
from configs.methods import apply_method
from configs.mixup import MixupConfig, NeighborsConfig
from learner.mixup.mixup import Mixup, Partners, check_mixup, make_mixup
from learner.mixup.partners import bytes_beside, make_partners
from learner.mixup.rows import Layout
from replay_memory.memory import ReplayMemory
from tests.mixable import CODEC, SPEC, STREAMS, NeighborOracle, grown, memory_of, random_rows, row

LAYOUT = Layout.of(CODEC)
KINDS = ("neighbors", "mixup", "continuous", "s4rl", "noise")


def mixup_of(memory: ReplayMemory, seed: int = 0, **fields: Any) -> Mixup:
  config = MixupConfig(**fields)
  return Mixup(config, CODEC, seed, make_partners(config, CODEC, memory) if config.needs_memory else None)


def filled(rows: np.ndarray, **fields: Any) -> tuple[ReplayMemory, Mixup]:
  """A memory with these rows, and the hook that follows it."""
  memory = memory_of(len(rows))
  mixup = mixup_of(memory, **fields)
  memory.add(rows)
  return memory, mixup


def applied(memory: ReplayMemory, mixup: Mixup, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """(the rows in these slots, what becomes of them), float32 [n, width] each."""
  rows = memory.take(slots)
  return rows, mixup.apply(rows[None], slots[None])[0]


def test_a_row_is_mixed_with_its_nearest_neighbour_and_lies_between_the_two() -> None:
  rng = np.random.default_rng(0)
  rows = random_rows(rng, 200, episode_steps=1_000)
  memory, mixup = filled(rows, kind="neighbors", neighbors=NeighborsConfig(1))
  slots = memory.slots
  own, mixed = applied(memory, mixup, slots)
  points = own[:, LAYOUT.point].astype(np.float64)
  scaled = (points - points.mean(axis=0)) / points.std(axis=0)
  distances = np.linalg.norm(scaled[:, None] - scaled, axis=2) + np.diag([np.inf] * len(points))
  nearest = own[distances.argmin(axis=1)]
  words = LAYOUT.mixed
  # lambda from the widest component, the same in all others.
  spans = own[:, words] - nearest[:, words]
  widest = np.abs(spans).argmax(axis=1), np.arange(len(own))
  shares = ((mixed - nearest)[:, words] / np.where(spans == 0, 1, spans))[widest[1], widest[0]]
  assert ((shares >= -1e-5) & (shares <= 1 + 1e-5)).all()
  assert mixed[:, words] == pytest.approx(nearest[:, words] + shares[:, None] * spans, abs=1e-4)
  assert mixup.metrics()["mixup_distance"] == pytest.approx(distances.min(axis=1).mean(), rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(**STREAMS)
def test_whole_batches_are_the_oracles_at_every_size_and_k(
  seed: int, capacity: int, count: int, constant: bool, levels: int
) -> None:
  rng = np.random.default_rng(seed)
  memory = memory_of(capacity)
  mixup = mixup_of(memory, seed, kind="neighbors", neighbors=NeighborsConfig(count, growth=0.0))
  for oracle in grown(memory, rng, 8, constant, levels):
    slots = rng.choice(memory.slots, 6)
    for slot, own, mixed in zip(slots.tolist(), *applied(memory, mixup, slots), strict=True):
      check_mixed(own, mixed, nearest_rows(memory, oracle, slot, count))


def nearest_rows(memory: ReplayMemory, oracle: NeighborOracle, slot: int, count: int) -> np.ndarray:
  """The rows that a row may be mixed with, float32 [n, width]; n > k where several are as far as the last."""
  distances = oracle.distances(memory, slot)
  farthest = max(sorted(distances.values())[:count], default=0.0)
  # float32 rounds squares of distances.
  handles = [handle for handle, distance in distances.items() if distance <= farthest + 3e-3]
  return memory.take(memory.slots_of(np.array(handles, np.uint64)))


def check_mixed(own: np.ndarray, mixed: np.ndarray, others: np.ndarray) -> None:
  """The row lies between itself and one of the others, or is as it was where it or one of them is terminated."""
  words = LAYOUT.mixed
  assert np.delete(mixed, words).tobytes() == np.delete(own, words).tobytes()
  own_words, mixed_words = own[words].astype(np.float64), mixed[words].astype(np.float64)
  if LAYOUT.is_terminated(own[None])[0] or not len(others):
    assert mixed.tolist() == own.tolist()
    return
  is_terminated = LAYOUT.is_terminated(others)
  if is_terminated.any() and (mixed == own).all():
    return
  misses = []
  for other in others[~is_terminated][:, words].astype(np.float64):
    span = own_words - other
    share = np.clip((mixed_words - other) @ span / max(1e-12, span @ span), 0, 1)
    misses.append(np.abs(other + share * span - mixed_words).max())
  assert min(misses, default=np.inf) < 1e-5


@pytest.mark.parametrize("alpha", [0.4, 1.0, 5.0])
def test_shares_have_betas_first_two_moments(alpha: float) -> None:
  # Two rows at 0 and 1: what a row becomes is lambda, or 1 - lambda, which are drawn alike.
  memory, mixup = filled(np.stack([row((0, 0), step=0), row((1, 1), step=1)]), kind="neighbors", alpha=alpha)
  _, mixed = applied(memory, mixup, np.repeat(memory.slots, 20_000))
  shares = CODEC.unpack(mixed)["observation"][:, 0]
  deviation = np.sqrt(1 / (4 * (2 * alpha + 1)))
  assert shares.mean() == pytest.approx(0.5, abs=5 * deviation / 200)
  assert shares.std() == pytest.approx(deviation, rel=0.02)


def test_the_next_step_is_the_partner_but_not_over_a_gap_an_end_or_to_a_terminal_state() -> None:
  def step_of(episode: int, step: int, **ends: Any) -> np.ndarray:
    return row((10 * step, 0), episode=episode, step=step, **ends)

  rows = [
    *(step_of(0, step) for step in (0, 1, 3)),  # Step 2 is missing.
    step_of(0, 4, terminated=True),
    step_of(1, 0),
    step_of(1, 1, truncated=True),
  ]
  memory, mixup = filled(np.stack(rows), kind="continuous")
  own, mixed = applied(memory, mixup, memory.slots)
  assert (own[:, LAYOUT.mixed] != mixed[:, LAYOUT.mixed]).any(axis=1).tolist() == [
    True,
    False,
    False,
    False,
    True,
    False,
  ]
  observed = CODEC.unpack(mixed)["observation"][:, 0]
  assert 0 < observed[0] < 10
  assert 0 < observed[4] < 10
  metrics = mixup.metrics()
  # Alone: before the gap, and at the time limit's end. Terminated: the terminal row, and the one before it.
  assert (metrics["mixup_alone_share"], metrics["mixup_terminated_share"]) == pytest.approx((2 / 6, 2 / 6))


@pytest.mark.parametrize("kind", ["neighbors", "mixup"])
def test_rows_that_reach_a_terminal_state_are_neither_mixed_nor_partners(kind: str) -> None:
  rows = [row((0, 0), step=0, terminated=True, discount=0.0), row((1, 1), episode=1), row((2, 2), episode=2)]
  memory, mixup = filled(np.stack(rows), kind=kind)
  own, mixed = applied(memory, mixup, np.tile(memory.slots, 200))
  observed = CODEC.unpack(mixed)["observation"][:, 0].reshape(-1, 3)
  assert (observed[:, 0] == 0).all()
  assert (observed[:, 1:] >= 1).all()
  assert (observed[:, 1:] != [1, 2]).any(axis=0).all()
  assert (CODEC.unpack(mixed)["discount"] == CODEC.unpack(own)["discount"]).all()


def test_mixup_takes_any_stored_row() -> None:
  memory, mixup = filled(random_rows(np.random.default_rng(0), 50, 1_000), kind="mixup")
  memory.add(random_rows(np.random.default_rng(1), 20, 1_000, first=50))
  found = memory.random_slots(20_000, np.random.default_rng(0))
  counts = np.bincount(found, minlength=memory.plan.slots)[memory.slots]
  assert len(counts) == 50
  assert counts.sum() == 20_000
  assert (np.abs(counts - 400) < 110).all()  # Over five deviations.
  own, mixed = applied(memory, mixup, memory.slots)
  assert (own != mixed).any(axis=1).sum() >= 45  # A row may find itself.


@pytest.mark.parametrize("kind", KINDS)
def test_a_fraction_of_rows_is_changed_and_the_others_are_not(kind: str) -> None:
  memory, mixup = filled(random_rows(np.random.default_rng(0), 1_000, 10_000), kind=kind, fraction=0.3)
  own, changed = applied(memory, mixup, memory.slots)
  is_changed = (own != changed).any(axis=1)
  assert is_changed.mean() == pytest.approx(0.3, abs=0.07)
  assert mixup.metrics()["mixup_left_share"] == pytest.approx(1 - is_changed.mean(), abs=0.005)
  assert own[~is_changed].tobytes() == changed[~is_changed].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_changes_with_a_fraction_of_0(kind: str) -> None:
  memory, mixup = filled(random_rows(np.random.default_rng(0), 30), kind=kind, fraction=0.0)
  own, same = applied(memory, mixup, memory.slots)
  assert own.tobytes() == same.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_mixtures_repeat_from_a_seed_and_from_a_state(kind: str) -> None:
  rows = random_rows(np.random.default_rng(0), 60)
  memory, mixup = filled(rows, kind=kind)
  same_memory, same = filled(rows, kind=kind)
  slots = memory.slots
  assert applied(memory, mixup, slots)[1].tobytes() == applied(same_memory, same, slots)[1].tobytes()
  state = {key: value.copy() for key, value in mixup.state().items()}
  after = applied(memory, mixup, slots)[1]
  assert after.tobytes() != applied(memory, mixup, slots)[1].tobytes()
  _, restored = filled(rows, kind=kind, seed=5)
  restored.restore(state)
  assert restored.apply(memory.take(slots)[None], slots[None])[0].tobytes() == after.tobytes()


def _config(**mixup: Any) -> RunConfig:
  config = apply_method(load_config("nmer_td3_halfcheetah"), "nmer")
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, mixup=MixupConfig(**mixup)))


def test_a_config_makes_the_hook_that_it_asks_for() -> None:
  def refuse(config: MixupConfig) -> Partners:
    raise AssertionError(config)

  assert make_mixup(_config(), CODEC, 0) is None
  assert make_mixup(_config(kind="s4rl"), CODEC, 0, refuse) is not None
  memory = memory_of(5)
  assert make_mixup(_config(kind="mixup"), CODEC, 0, lambda mixup: make_partners(mixup, CODEC, memory)) is not None


def test_lists_take_memory_for_neighbours_alone() -> None:
  assert bytes_beside(MixupConfig("neighbors"), CODEC, 100) > 4_000
  assert bytes_beside(MixupConfig("mixup"), CODEC, 100) == 0


def test_observations_that_are_no_floats_are_refused() -> None:
  check_mixup(_config(kind="neighbors"), SPEC)
  pixels = SPEC._replace(observations=specs.BoundedArray((8, 8), np.uint8, 0, 255, "observation"))
  check_mixup(_config(), pixels)
  with pytest.raises(
    UserError, match=r"is 'noise', which changes observations, and those of 'HalfCheetah-v5' are uint8: use "
  ):
    check_mixup(_config(kind="noise"), pixels)

"""The hook between the draw of rows and the learner: rows and their slots in, rows out."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from acme import specs

from configs import RunConfig, UserError
from configs.mixup import MixupConfig
from configs.specs import CATEGORIES
from learner.mixup.rows import Layout, interpolated, with_mixed_states, with_noise
from replay_server.contract.codec import Packed, RowCodec

Int64 = npt.NDArray[np.int64]
State = Mapping[str, npt.NDArray[Any]]

# Parts the generator's numbers from those of the draws, which have the same seed.
_STREAM = 0x4D69_7875_70


class Partners(Protocol):
  """Finds the rows that others are mixed with."""

  def find(self, slots: Int64, rng: np.random.Generator) -> Int64:
    """The partner of each row, by their slots: int64 [n] for int64 [n], below 0 where there is none."""
    ...

  def take(self, slots: Int64) -> Packed:
    """The rows in these slots, float32 [n, width] for int64 [n]."""
    ...

  def distances(self, rows: Packed, others: Packed) -> npt.NDArray[np.float32]:
    """How far rows are from others, in the z-scores of state and action, float32 [n] for float32 [n, width] each."""
    ...

  @property
  def age(self) -> float:
    """Growth of the memory since what partners are found by was made, as a share of its rows at that time."""
    ...


@dataclasses.dataclass
class _Totals:
  """Sums over all rows so far.

  Attributes:
    rows: rows that were drawn.
    batches: batches that they were drawn for.
    left: rows that `fraction` left as they are.
    terminated: rows that stayed as they are because they or their partners reach a terminal state.
    alone: rows for which there was no partner.
    mixed: rows that were mixed with partners.
    measured: those of them whose distance was measured.
    distance: of these from their partners, in z-scores.
    age: growth of the memory since the z-scores and the index were made, for each row that was mixed.
    seconds: that looking for partners took.
  """

  rows: int = 0
  batches: int = 0
  left: int = 0
  terminated: int = 0
  alone: int = 0
  mixed: int = 0
  measured: int = 0
  distance: float = 0.0
  age: float = 0.0
  seconds: float = 0.0


class Mixup:
  """Changes drawn rows as `learner.mixup` says.

  It has a random generator of its own, so that the tables' draws are those of a run without it. Whatever becomes of a row, its
  episode, step, events and flags stay its own, and so does the priority that follows from its TD error.
  """

  def __init__(self, config: MixupConfig, codec: RowCodec, seed: int, partners: Partners | None = None):
    """Composes the hook.

    Args:
      config: of the run; its kind is not none.
      codec: of the rows.
      seed: of the run.
      partners: for kinds that need the memory.
    """
    self._config, self._partners = config, partners
    self._layout = Layout.of(codec)
    self._rng = np.random.default_rng((seed, _STREAM))
    self._totals = _Totals()

  def apply(self, rows: Packed, slots: Int64 | None = None) -> Packed:
    """The rows as they are to be learned from.

    Args:
      rows: float32 [K, batch, width], as drawn.
      slots: int64 [K, batch], where the memory has them; for kinds that need it.

    Returns:
      float32 [K, batch, width].
    """
    flat, totals = rows.reshape(-1, rows.shape[-1]), self._totals
    totals.rows += len(flat)
    totals.batches += len(rows)
    is_chosen = self._rng.random(len(flat)) < self._config.fraction
    totals.left += int((~is_chosen).sum())
    if self._config.kind == "noise":
      changed = self._noisy(flat, is_chosen)
    else:
      is_terminated = is_chosen & self._layout.is_terminated(flat)
      totals.terminated += int(is_terminated.sum())
      chosen = np.flatnonzero(is_chosen & ~is_terminated)
      if self._partners is None:
        changed = with_mixed_states(flat, self._shares(len(flat), chosen), self._layout)
      else:
        assert slots is not None
        changed = self._mixed(flat, slots.reshape(-1), chosen, self._partners, len(rows))
    return changed.reshape(rows.shape)

  def _noisy(self, rows: Packed, is_chosen: npt.NDArray[np.bool_]) -> Packed:
    noise = self._rng.standard_normal((len(rows), len(self._layout.transition)), np.float32)
    return with_noise(rows, noise * is_chosen[:, None], self._config.deviation, self._layout)

  def _mixed(self, rows: Packed, slots: Int64, chosen: Int64, partners: Partners, batches: int) -> Packed:
    totals = self._totals
    began = time.perf_counter()
    found = partners.find(slots[chosen], self._rng)
    totals.seconds += time.perf_counter() - began
    has_partner = found >= 0
    totals.alone += int((~has_partner).sum())
    chosen, found = chosen[has_partner], found[has_partner]
    others = partners.take(found)
    is_open = ~self._layout.is_terminated(others)
    totals.terminated += int((~is_open).sum())
    chosen, others = chosen[is_open], others[is_open]
    totals.mixed += len(chosen)
    measured = slice(0, -(-len(chosen) // batches))  # About one batch, which is enough for a mean.
    totals.measured += measured.stop
    totals.distance += float(partners.distances(rows[chosen[measured]], others[measured]).sum())
    totals.age += len(chosen) * partners.age
    shares = self._shares(len(chosen), np.arange(len(chosen)))
    mixed = rows.copy()
    mixed[chosen] = interpolated(rows[chosen], others, shares, self._layout)
    return mixed

  def _shares(self, count: int, chosen: Int64) -> npt.NDArray[np.float32]:
    """lambda of `count` rows, float32 [count], which is 1 for those that are not chosen."""
    shares = np.ones(count, np.float32)
    shares[chosen] = self._rng.beta(self._config.alpha, self._config.alpha, len(chosen))
    return shares

  def metrics(self) -> Mapping[str, float]:
    """What became of the rows since the learner started; empty before the first of them."""
    totals = self._totals
    if not totals.rows:
      return {}
    unmixed = {"left": totals.left, "terminated": totals.terminated, "alone": totals.alone}
    metrics = {f"mixup_{reason}_share": rows / totals.rows for reason, rows in unmixed.items()}
    if self._partners is not None:
      metrics["mixup_distance"] = totals.distance / max(1, totals.measured)
      metrics["mixup_list_age"] = totals.age / max(1, totals.mixed)
      metrics["mixup_seconds_per_update"] = totals.seconds / totals.batches
    return metrics

  def state(self) -> State:
    """The state of the random generator; partners are found anew."""
    return {"rng": np.array(json.dumps(self._rng.bit_generator.state))}

  def restore(self, state: State) -> None:
    """Restores what `state` returned."""
    self._rng.bit_generator.state = json.loads(str(state["rng"]))


def make_mixup(
  config: RunConfig,
  codec: RowCodec,
  seed: int,
  make_partners: Callable[[MixupConfig], Partners] | None = None,
) -> Mixup | None:
  """The hook that a run's config asks for; None if it asks for none.

  Args:
    config: of the run.
    codec: of its rows.
    seed: of the run.
    make_partners: makes what finds partners, if they are asked for; None where the learner has no memory of its own.

  Raises:
    UserError: from `make_partners`.
  """
  mixup = config.learner.mixup
  if mixup.kind == "none":
    return None
  if not mixup.needs_memory:
    return Mixup(mixup, codec, seed)
  assert make_partners is not None  # The config has seen to it that there is a memory.
  return Mixup(mixup, codec, seed, make_partners(mixup))


def check_mixup(config: RunConfig, spec: specs.EnvironmentSpec) -> None:
  """Refuses what `learner.mixup` cannot mix.

  Args:
    config: of the run.
    spec: of its environment.

  Raises:
    UserError: observations are no floats, or faiss is needed and not installed.
  """
  kind, observations = config.learner.mixup.kind, spec.observations
  if kind == "none":
    return
  if observations.dtype != np.float32 or observations.name == CATEGORIES:
    raise UserError(
      f"learner.mixup.kind is {kind!r}, which changes observations, and those of {config.environment.name!r} are "
      f"{observations.dtype}: use an environment whose observations are a Box of float32 or float64, or leave it at 'none'."
    )
  if kind == "neighbors":
    # numba takes a second and 90 MB, which other runs need not spend.
    from replay_memory.neighbors import import_faiss

    import_faiss()

"""Mixtures of packed rows: pure functions of rows, partners and shares (NMER, Algorithm 1 and Appendix D)."""

import dataclasses

import numpy as np
import numpy.typing as npt

from replay_server.contract.codec import Packed, RowCodec

Float32 = npt.NDArray[np.float32]

_POINT = ("observation", "action")
# The paper's transition is (s, a, r, s'). With n-step rows the discount is one more part of the target.
_TRANSITION = (*_POINT, "reward", "next_observation")
_MIXED = (*_TRANSITION, "discount")


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where in a row those fields are that mixtures read or change; all of these but the flag are float32 values.

  Attributes:
    observation: slice of the observation's words.
    next_observation: slice of the next observation's words.
    point: int64 [words], of observation and action, by which rows are near each other.
    transition: int64 [words], of observation, action, reward and next observation.
    mixed: of the transition and its discount; a slice where they lie together, which numpy copies several times as fast.
    terminated: the word of the flag.
  """

  observation: slice
  next_observation: slice
  point: npt.NDArray[np.int64]
  transition: npt.NDArray[np.int64]
  mixed: slice | npt.NDArray[np.int64]
  terminated: int

  @classmethod
  def of(cls, codec: RowCodec) -> "Layout":
    """The layout of a codec's rows."""
    fields = {field.name: field for field in codec.fields}

    def words(name: str) -> slice:
      return slice(fields[name].offset, fields[name].offset + fields[name].words)

    def all_words(names: tuple[str, ...]) -> npt.NDArray[np.int64]:
      return np.concatenate([np.arange(words(name).start, words(name).stop) for name in names])

    return cls(
      observation=words("observation"),
      next_observation=words("next_observation"),
      point=all_words(_POINT),
      transition=all_words(_TRANSITION),
      mixed=_together(all_words(_MIXED)),
      terminated=fields["terminated"].offset,
    )

  def is_terminated(self, rows: Packed) -> npt.NDArray[np.bool_]:
    """Which of rows, float32 [n, width], reach a terminal state, bool [n]; a time limit's end is none."""
    flags: npt.NDArray[np.uint32] = np.ascontiguousarray(rows[:, self.terminated]).view(np.uint32)
    is_terminated: npt.NDArray[np.bool_] = flags != 0
    return is_terminated


def _together(words: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
  """The same words, as a slice if they are one after another in some order."""
  first, end = int(words.min()), int(words.max()) + 1
  return slice(first, end) if end - first == len(np.unique(words)) else words


def interpolated(rows: Packed, partners: Packed, shares: Float32, layout: Layout) -> Packed:
  """lambda x + (1 - lambda) x' of the mixed words; the others stay the row's (NMER, Algorithm 1, line 7).

  Args:
    rows: float32 [n, width], x.
    partners: float32 [n, width], x'.
    shares: float32 [n], lambda, in [0, 1]; with 1 a row stays as it is to the last bit.
    layout: of the rows.

  Returns:
    float32 [n, width], new.
  """
  mixed = rows.copy()
  mixed[:, layout.mixed] = _between(rows[:, layout.mixed], partners[:, layout.mixed], shares)
  return mixed


def with_mixed_states(rows: Packed, shares: Float32, layout: Layout) -> Packed:
  """S4RL's mixture within a transition: s becomes lambda s + (1 - lambda) s', and the rest stays (NMER, Appendix D).

  Args:
    rows: float32 [n, width].
    shares: float32 [n], lambda, in [0, 1].
    layout: of the rows.

  Returns:
    float32 [n, width], new.
  """
  mixed = rows.copy()
  mixed[:, layout.observation] = _between(rows[:, layout.observation], rows[:, layout.next_observation], shares)
  return mixed


def with_noise(rows: Packed, noise: Float32, deviation: float, layout: Layout) -> Packed:
  """Adds noise to each component of the transitions, in units of the component's deviation (NMER, Appendix D).

  Args:
    rows: float32 [n, width]; a component's deviation is that among these rows.
    noise: float32 [n, words], of unit deviation, for the words of `layout.transition`.
    deviation: sigma.
    layout: of the rows.

  Returns:
    float32 [n, width], new.
  """
  noisy = rows.copy()
  values = rows[:, layout.transition]
  noisy[:, layout.transition] = values + noise * (deviation * values.std(axis=0, dtype=np.float64)).astype(np.float32)
  return noisy


def _between(rows: Float32, others: Float32, shares: Float32) -> Float32:
  share = shares[:, None]
  mixed: Float32 = share * rows
  mixed += (np.float32(1) - share) * others
  # Adding 0 would turn -0 into 0.
  np.copyto(mixed, rows, where=share == 1)
  return mixed

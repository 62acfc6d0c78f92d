"""The benchmarks' input: seeded transitions, and the configs of their tables."""

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import numpy.typing as npt
from acme import specs

from actors.row_writer import RowWriter
from configs import EventSpec, LearnerConfig, ReplayConfig, RunConfig, TableSpec
from environments.timestep import EventTimeStep
from replay_server.contract.codec import WORD_BYTES, RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest

Rows = npt.NDArray[np.float32]  # [rows, width]

OBSERVATION_SIZE = 17
ACTION_SIZE = 6
EPISODE_STEPS = 1_000
# Of V-RACER's actions at first; and of behaviours' means, by which the KL from an untrained policy is some .35 nats, as in a run.
_DEVIATION, _SPREAD = 0.2**0.5, 0.15

# The obstacle course of SSET's Table 1: the default table and six event tables.
SHARES = (0.5, 0.1, 0.0625, 0.0625, 0.0625, 0.1125, 0.1)


def make_spec(observation_size: int = OBSERVATION_SIZE, num_actions: int = 0) -> specs.EnvironmentSpec:
  """A spec with float32 observations, and with `ACTION_SIZE` continuous actions or `num_actions` discrete ones."""
  actions: specs.Array = specs.BoundedArray((ACTION_SIZE,), np.float32, -1.0, 1.0, "action")
  if num_actions:
    actions = specs.DiscreteArray(num_actions, np.int32, "action")
  return specs.EnvironmentSpec(
    observations=specs.Array((observation_size,), np.float32, "observation"),
    actions=actions,
    rewards=specs.Array((), np.float32, "reward"),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
  )


def make_config(
  shares: tuple[float, ...], capacity: int, batch_size: int = 32, default: str = "default", history: int = 1
) -> RunConfig:
  """A run with a default table and an event table for each further share.

  Args:
    shares: the tables' shares of a batch, the default table's first.
    capacity: in transitions, of all tables together; each has the share that it has of a batch.
    batch_size: of the learner.
    default: name of the default table.
    history: of every event, in steps.
  """
  names = [f"event_{index}" for index in range(1, len(shares))]
  return RunConfig(
    name="benchmark",
    # Only environments evaluate conditions, and there is none here.
    events=tuple(EventSpec(name, "environments.three_rooms:done", history=history) for name in names),
    replay=ReplayConfig(
      capacity=capacity,
      default=TableSpec(default, probability=shares[0]),
      environment_steps_per_update=None,  # Neither side waits for the other.
      tables=tuple(TableSpec(name, probability=share) for name, share in zip(names, shares[1:], strict=True)),
    ),
    learner=LearnerConfig(batch_size=batch_size, device="CPU:0"),
  )


def in_memory(config: RunConfig) -> RunConfig:
  """The same run with a learner that draws from its own memory."""
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="memory"))


def prioritized(config: RunConfig) -> RunConfig:
  """The same run with draws by priority from every table."""
  default, *others = (dataclasses.replace(table, selector="prioritized") for table in config.replay.all_tables)
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, default=default, tables=tuple(others)))


def on_cpu(config: RunConfig, quick: bool) -> RunConfig:
  """The same run with a learner on the CPU. The smallest form only shows that it works, so it is not compiled."""
  learner = config.learner
  learner = dataclasses.replace(learner, device="CPU:0", jit_compile=learner.jit_compile and not quick)
  return dataclasses.replace(config, learner=learner)


def make_manifest(config: RunConfig, spec: specs.EnvironmentSpec) -> Manifest:
  """The manifest of a benchmark's server."""
  return Manifest.of("benchmark", config, spec)


@dataclasses.dataclass(frozen=True)
class Episode:
  """Made before the clock starts: `steps[0]` begins the episode, and `actions[i]` leads to `steps[i + 1]`."""

  steps: tuple[EventTimeStep, ...]
  actions: tuple[npt.NDArray[np.float32], ...]


def make_episodes(transitions: int, events: int, event_rate: float, seed: int = 0) -> list[Episode]:
  """Episodes of `EPISODE_STEPS` random transitions, of which a share fires one event, chosen uniformly."""
  rng = np.random.default_rng(seed)
  return [
    _make_episode(rng, min(EPISODE_STEPS, transitions - begin), events, event_rate)
    for begin in range(0, transitions, EPISODE_STEPS)
  ]


def _make_episode(rng: np.random.Generator, length: int, events: int, event_rate: float) -> Episode:
  observations = rng.standard_normal((length + 1, OBSERVATION_SIZE), np.float32)
  actions = rng.uniform(-1, 1, (length, ACTION_SIZE)).astype(np.float32)
  masks = np.where(rng.random(length) < event_rate, 1 << rng.integers(0, events, length), 0)
  steps = [EventTimeStep(dm_env.StepType.FIRST, None, None, observations[0])]
  for index in range(length):
    last = index == length - 1
    steps.append(
      EventTimeStep(
        step_type=dm_env.StepType.LAST if last else dm_env.StepType.MID,
        reward=np.float32(rng.standard_normal()),
        discount=np.float32(1.0),
        observation=observations[index + 1],
        events=int(masks[index]),
        truncated=last,
      )
    )
  return Episode(tuple(steps), tuple(actions))


def make_rows(
  codec: RowCodec,
  count: int,
  num_actions: int = 0,
  seed: int = 0,
  events: npt.NDArray[np.int32] | None = None,
  first_episode: int = 0,
  episode_steps: int = EPISODE_STEPS,
) -> Rows:
  """Packed rows of random transitions, in episodes that are truncated.

  Args:
    codec: of the rows.
    count: rows.
    num_actions: number of discrete actions; 0 for continuous ones.
    seed: of the random numbers.
    events: int32 [count], the events of each row as a mask; None for no events.
    first_episode: number of the first row's episode.
    episode_steps: length of an episode.

  Returns:
    float32 [count, width].
  """
  rng = np.random.default_rng(seed)
  numbers = np.arange(count)
  values: dict[str, npt.NDArray[Any]] = {
    field.name: rng.standard_normal((count, *field.shape), np.float32)
    for field in codec.fields
    if field.dtype == "float32"
  }
  values |= {
    "action": rng.integers(num_actions, size=count) if num_actions else np.tanh(values["action"]),
    "discount": np.ones(count),
    "steps": np.ones(count),
    "events": np.zeros(count) if events is None else events,
    "episode": first_episode + numbers // episode_steps,
    "step": numbers % episode_steps,
    "truncated": numbers % episode_steps == episode_steps - 1,
  }
  if "behaviour" in values:
    means = _SPREAD * values["behaviour"][:, : values["action"].shape[1]]
    values["behaviour"] = np.concatenate([means, np.full_like(means, _DEVIATION)], axis=1)
    values["action"] = means + _DEVIATION * np.clip(rng.standard_normal(means.shape, np.float32), -3.0, 3.0)
  rows = np.zeros((count, codec.width), np.float32)
  for field in codec.fields:
    if field.name in values:
      padded = np.zeros((count, field.words * WORD_BYTES // np.dtype(field.dtype).itemsize), field.dtype)
      padded[:, : field.elements] = values[field.name].reshape(count, -1)
      rows[:, field.offset : field.offset + field.words] = padded.view(np.float32)
  return rows


def events_of(sizes: Sequence[int], seed: int = 0) -> npt.NDArray[np.int32]:
  """The events of a stream of rows with which a memory's tables become full, and no two of them share a row.

  The first rows have one event each, in random order. The rows after them have none; they are what the default table then holds.

  Args:
    sizes: of the tables, the default table's first; an event for each of the others, with a history of 1.
    seed: of the order.

  Returns:
    int32 [sum of the sizes], the events of each row as a mask.
  """
  events = np.repeat(1 << np.arange(len(sizes) - 1), sizes[1:])
  masks = np.zeros(sum(sizes), np.int32)
  masks[: len(events)] = np.random.default_rng(seed).permutation(events)
  return masks


def fill(connection: Connection, rows: Rows, sizes: dict[str, int], extra: dict[str, int] | None = None) -> None:
  """Writes each row once and references it from one of the tables, and the first rows from further tables too.

  Args:
    connection: to the server.
    rows: at least as many as the sum of `sizes`.
    sizes: table -> how many rows it gets; no two of these tables share a row.
    extra: table -> how many rows it gets, counted from the first.
  """
  writer = RowWriter(connection, 1, threading.Event())
  tables = [name for name, size in sizes.items() for _ in range(size)]
  for index, (name, row) in enumerate(zip(tables, rows, strict=False)):
    reference = writer.append(row)
    writer.create_item(name, reference)
    for also, count in (extra or {}).items():
      if index < count:
        writer.create_item(also, reference)
  writer.flush()
  writer.close()

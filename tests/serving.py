"""The server harness of all tests: configs, servers, rows in and out of their tables, and waiting.

`python -m tests.serving FOLDER [--snapshots] [--distributed]` serves until it is killed or its standard input ends; see
`server_process`.
"""

import contextlib
import dataclasses
import json
import pathlib
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import dm_env
import numpy as np
import pytest
from acme import specs

from actors.adder import EventTableAdder, references_needed
from actors.pacer import Pacer
from actors.row_writer import RowWriter
from configs import (
  DdqnConfig,
  EventSpec,
  LearnerConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  from_json,
  to_dict,
  to_json,
)
from configs.algorithms import ALGORITHMS
from environments import make_environment_spec, make_event_environment
from environments.timestep import EventTimeStep
from replay_server.contract import layout
from replay_server.contract.codec import RowCodec
from replay_server.contract.connection import Connection
from replay_server.contract.layout import make_row_codec
from replay_server.contract.messages import decode, encode_text
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer

_ROOT = pathlib.Path(__file__).parents[1]
_CONFIG_FILE = "server.json"


def make_spec(shape: tuple[int, ...] = (3,), dtype: Any = np.float32) -> specs.EnvironmentSpec:
  """An environment with such observations and three actions."""
  scalar = specs.Array((), np.float32)
  return specs.EnvironmentSpec(specs.Array(shape, dtype), specs.DiscreteArray(3), scalar, scalar)


SPEC = make_spec()
CODEC = make_row_codec(SPEC)


def config_of(
  tables: Sequence[TableSpec],
  events: Sequence[tuple[str, int]] | None = None,
  replay: Mapping[str, Any] | None = None,
  **changes: Any,
) -> RunConfig:
  """A run with these tables, whose server does not tie sampling to inserting.

  Args:
    tables: the default table first.
    events: (table, history) of every event, in the order of their bits; None for one of history 1 for each event table.
    replay: changes of `ReplayConfig`'s fields.
    changes: of `RunConfig`'s fields.
  """
  default, *others = tables
  events = [(table.name, 1) for table in others] if events is None else events
  return RunConfig(
    **{
      "events": tuple(
        EventSpec(f"event_{bit}", "environments.three_rooms:done", history, table)
        for bit, (table, history) in enumerate(events)
      ),
      "replay": ReplayConfig(
        default=default, tables=tuple(others), **{"environment_steps_per_update": None, **(replay or {})}
      ),
      **changes,
    }
  )


def make_config(
  tables: Mapping[str, int] | None = None,
  events: Sequence[tuple[str, int]] = (),
  capacity: int = 1_000,
  n_step: int = 1,
  discount: float = 0.9,
  **changes: Any,
) -> RunConfig:
  """A run whose tables are read from the oldest row on, with equal shares of a batch.

  Args:
    tables: name -> capacity of every event table.
    events: (table, history) of every event, in the order of their bits.
    capacity: of the default table.
    n_step: of the rows.
    discount: of the rows.
    changes: of `RunConfig`'s fields.
  """
  capacities = {"default": capacity, **(tables or {})}
  share = 1 / len(capacities)
  return config_of(
    [TableSpec(name, share, size, selector="fifo") for name, size in capacities.items()],
    events,
    **{"learner": LearnerConfig(n_step=n_step, discount=discount), **changes},
  )


@dataclasses.dataclass(frozen=True)
class _BehaviourConfig(DdqnConfig):
  """An algorithm whose rows have a field that describes the behaviour."""

  NAME: ClassVar[str] = "with_behaviour"

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    return {"behaviour": ("float32", (2,))}


def with_behaviour(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
  """The run with a field `behaviour`, float32 [2], in its rows."""
  monkeypatch.setitem(ALGORITHMS, _BehaviourConfig.NAME, _BehaviourConfig)
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, algorithm=_BehaviourConfig()))


@contextlib.contextmanager
def serving(
  config: RunConfig, folder: pathlib.Path, spec: specs.EnvironmentSpec = SPEC, run_id: str = "run", **arguments: Any
) -> Iterator[ReplayServer]:
  """A server with a checkpoint directory in `folder`."""
  with ReplayServer(config, spec, run_id, folder / "checkpoint", **arguments) as server:
    yield server


@contextlib.contextmanager
def keeping(server: ReplayServer, folder: pathlib.Path) -> Iterator[Keeper]:
  """Keeps the server's status up to date, ten times a second."""
  done = threading.Event()
  with contextlib.closing(Keeper(server, folder)) as keeper:

    def tick() -> None:
      while not done.wait(0.1):
        keeper.tick()

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
      yield keeper
    finally:
      done.set()
      ticking.join()


class ServerProcess(NamedTuple):
  """A server in a process of its own.

  Attributes:
    address: "host:port".
    kill: ends the process at once, as a crash would, and waits until it is gone.
  """

  address: str
  kill: Callable[[], None]


def python_module(name: str) -> list[str]:
  """The command that runs a module, to which arguments can be added. `launch` has it import TensorFlow in half of the time."""
  return [sys.executable, "-c", f"import launch, runpy; runpy.run_module({name!r}, run_name='__main__')"]


@contextlib.contextmanager
def server_process(
  folder: pathlib.Path, config: RunConfig | None = None, snapshots: bool = False, distributed: bool = False
) -> Iterator[ServerProcess]:
  """A server in a process of its own, with a checkpoint directory in `folder`.

  Args:
    folder: of the server.
    config: of the run; None for `make_config()` with `SPEC`.
    snapshots: whether it writes one snapshot after the other.
    distributed: whether the run is of several processes; otherwise it is inline.
  """
  if config is not None:
    (folder / _CONFIG_FILE).write_text(to_json(config))
  flags = {"--snapshots": snapshots, "--distributed": distributed}
  command = [*python_module("tests.serving"), str(folder), *(flag for flag, is_set in flags.items() if is_set)]
  with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout is not None

    def kill() -> None:
      process.kill()
      process.wait()

    try:
      yield ServerProcess(process.stdout.readline().strip(), kill)
    finally:
      kill()


def free_port() -> int:
  """A port that nothing listened on a moment ago."""
  with socket.create_server(("", 0)) as taken:
    port: int = taken.getsockname()[1]
  return port


def write_version_2(connection: Connection, config: RunConfig, run_id: str) -> None:
  """Writes the manifest of an inline run that a server of layout version 2 would have written."""
  manifest = {"run_id": run_id, "config": to_dict(config), "codec": to_dict(CODEC), "inline": True, "layout_version": 2}
  connection.writer().write(layout.RUN, [encode_text(json.dumps({**manifest, "versions": {}}))])


def checkpoint_version_2(server: ReplayServer) -> None:
  """Writes a snapshot of layout version 2."""
  server.manifest = dataclasses.replace(server.manifest, layout_version=2)
  server.checkpoint()


def write_former_checkpoint(directory: pathlib.Path) -> None:
  """Writes what marks a checkpoint of the tables by a release that sealed none."""
  folder = directory / "2026-11-23T04:54:17.721732944+00:00"
  folder.mkdir(parents=True)
  (folder / "DONE").write_text("")


@contextlib.contextmanager
def adding(
  server: ReplayServer, writer_id: int = 0, report_histories: bool = False
) -> Iterator[tuple[EventTableAdder, RowWriter]]:
  """An adder and the writer that it uses, for the server's config."""
  config, codec, stop = server.manifest.config, server.manifest.codec, threading.Event()
  with contextlib.ExitStack() as stack:
    writer = stack.enter_context(contextlib.closing(RowWriter(server.connection, references_needed(config), stop)))
    histories = None
    if report_histories:
      histories = stack.enter_context(contextlib.closing(RowWriter(server.connection, 1, stop)))
    yield EventTableAdder(writer, codec, config, writer_id, histories), writer
    if histories is not None:
      histories.flush()


def fill(connection: Connection, codec: RowCodec, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
  """Puts rows into `table` alone.

  Args:
    connection: to the server.
    codec: of the rows.
    table: to fill.
    rows: name -> value of each row's fields; those left out are 0, and `discount` and `steps` are 1.
  """
  blank = {field.name: np.zeros(field.shape, field.dtype) for field in codec.fields}
  packer = codec.packer()
  with contextlib.closing(RowWriter(connection, 1, threading.Event())) as writer:
    for row in rows:
      writer.create_item(table, writer.append(packer.pack({**blank, "discount": 1.0, "steps": 1, **row})))
    writer.flush()


def report_steps(server: ReplayServer, transitions: int) -> None:
  """Tells the server of transitions, as a worker that has written them does; waits until it has taken the report."""
  steps_per_item = layout.pace_shape(server.manifest.config, server.manifest.inline).steps_per_item
  with contextlib.closing(RowWriter(server.connection, 1, threading.Event())) as writer:
    Pacer(writer, steps_per_item).report(transitions)
    writer.flush()


def size_of(connection: Connection, table: str) -> int:
  """Items in a table."""
  size: int = connection.info()[table].current_size
  return size


def inserted_into(connection: Connection, table: str) -> int:
  """How many items were inserted into a table so far."""
  count: int = connection.info()[table].rate_limiter_info.insert_stats.completed
  return count


def sampled_from(connection: Connection, table: str) -> int:
  """How many items were sampled from a table so far."""
  count: int = connection.info()[table].rate_limiter_info.sample_stats.completed
  return count


def read_messages(connection: Connection, table: str, *types: type) -> list[Any]:
  """Takes all messages out of a table; from the oldest to the newest."""
  return [decode(columns[0], *types) for columns in connection.read_many(table, 1_000, "test")]


def take_all(connection: Connection, table: str) -> list[tuple[float, np.ndarray]]:
  """Takes all items out of a table with the selector "fifo": priority and row of each, from the oldest to the newest."""

  def take() -> tuple[float, np.ndarray]:
    key, _, _, priority, (row,) = connection.open_sampler(table, samples=1, in_flight=1).next()
    connection.client.mutate_priorities(connection.wire_name(table), deletes=[key])
    return priority, row

  taken = [connection.call(take, "draining", 10) for _ in range(size_of(connection, table))]
  assert size_of(connection, table) == 0
  return taken


def drain(connection: Connection, table: str, codec: RowCodec = CODEC) -> list[dict[str, np.ndarray]]:
  """Takes every row out of a table with the selector "fifo"; from the oldest to the newest."""
  return [codec.unpack(row) for _, row in take_all(connection, table)]


def drain_priorities(connection: Connection, table: str) -> list[float]:
  """Takes every row out of a table with the selector "fifo"; their priorities, from the oldest to the newest."""
  return [priority for priority, _ in take_all(connection, table)]


def steps_in(connection: Connection, table: str) -> list[int]:
  """The numbers of the steps in a table, from the oldest to the newest; takes them out."""
  return [int(row["step"]) for row in drain(connection, table)]


def first(observation: Any = (0, 0, 0)) -> EventTimeStep:
  """The first time step of an episode."""
  return EventTimeStep(dm_env.StepType.FIRST, None, None, np.asarray(observation, np.float32))


def step(
  observation: Any = (0, 0, 0),
  reward: float = 0.0,
  events: int = 0,
  terminated: bool = False,
  truncated: bool = False,
  discount: float | None = None,
) -> EventTimeStep:
  """A later time step."""
  last = terminated or truncated
  return EventTimeStep(
    dm_env.StepType.LAST if last else dm_env.StepType.MID,
    np.float32(reward),
    np.float32(1 - terminated if discount is None else discount),
    np.asarray(observation, np.float32),
    events,
    terminated,
    truncated,
  )


ACTION = np.int32(1)


def run_episode(adder: EventTableAdder, length: int, events: Mapping[int, int] | None = None, episode: int = 0) -> None:
  """An episode whose step t leads from observation (episode, t, 0) to (episode, t + 1, 0).

  Args:
    adder: that takes it.
    length: in steps.
    events: step -> mask of the events that it fires.
    episode: for the observations.
  """
  adder.add_first(first((episode, 0, 0)))
  for t in range(length):
    mask = (events or {}).get(t, 0)
    adder.add(ACTION, step((episode, t + 1, 0), float(t), mask, terminated=t == length - 1), {"policy_version": 1})


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> None:
  """Waits until `condition()` holds.

  Raises:
    AssertionError: it did not hold within `seconds`.
  """
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline, f"the condition did not hold within {seconds:g} s"
    time.sleep(0.01)


def _serve(folder: pathlib.Path) -> None:
  config, spec = make_config(), SPEC
  if (folder / _CONFIG_FILE).exists():
    config = from_json((folder / _CONFIG_FILE).read_text())
    spec = make_environment_spec(make_event_environment(config))
  with serving(config, folder, spec, inline="--distributed" not in sys.argv) as started:
    print(started.address, flush=True)
    while "--snapshots" in sys.argv and not select.select([sys.stdin], [], [], 0)[0]:
      started.checkpoint()
    sys.stdin.read()  # Ends with the process that started this one.


if __name__ == "__main__":
  _serve(pathlib.Path(sys.argv[1]))

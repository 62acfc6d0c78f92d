"""One adder writes the same episodes to a real server's event tables and to the memory."""

import contextlib
import pathlib
import tempfile
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actors.adder import EventTableAdder, references_needed
from actors.row_writer import Row, RowWriter
from configs import RunConfig
from replay_memory.memory import ReplayMemory
from tests.actors.oracle import Episode
from tests.actors.test_adder_oracle import episodes_of, layouts
from tests.replay_memory.making import contents, plan_of
from tests.replay_memory.oracle import Key
from tests.serving import CODEC, drain, first, make_config, serving, step


class _RecordingWriter(RowWriter):
  """Keeps a copy of every row that it sends to the server."""

  rows: list[npt.NDArray[np.float32]]

  def append(self, values: npt.NDArray[np.float32]) -> Row:
    self.rows.append(values)
    return super().append(values)


def _play(config: RunConfig, episodes: Sequence[Episode], pulls: Sequence[int]) -> tuple[dict[str, list[Key]], ...]:
  """Episode and step of each row in every table, of the server and of a memory that gets the rows some at a time."""
  with contextlib.ExitStack() as stack:
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = stack.enter_context(serving(config, folder, inline=True))
    writer = _RecordingWriter(server.connection, references_needed(config), threading.Event())
    writer.rows = []
    adder = EventTableAdder(stack.enter_context(contextlib.closing(writer)), CODEC, config, 7)
    for number, episode in enumerate(episodes):
      adder.add_first(first(episode.observation(number, 0)))
      for t, taken in enumerate(episode.steps):
        over = t == len(episode.steps) - 1
        ends = {"terminated": over and episode.terminated, "truncated": over and not episode.terminated}
        after = step(episode.observation(number, t + 1), taken.reward, taken.events, **ends)
        adder.add(np.int32(taken.action), after, {"policy_version": number})
    server_tables = {
      table.name: [(int(row["episode"]), int(row["step"])) for row in drain(server.connection, table.name)]
      for table in config.replay.all_tables
    }
  memory = ReplayMemory(plan_of(config), CODEC)
  rows = np.array(writer.rows)
  for pull in pulls:
    memory.add(rows[memory.received : memory.received + pull])
  memory.add(rows[memory.received :])
  return server_tables, contents(memory)


@st.composite
def _scenarios(draw: st.DrawFn, n_step: int) -> tuple[RunConfig, list[Episode], list[int]]:
  """Small capacities with 1-step rows; with n-step rows tables that hold everything."""
  capacities, events = draw(layouts())
  if n_step > 1:
    capacities = dict.fromkeys(capacities, 1_000)
  config = make_config(
    tables={name: capacity for name, capacity in capacities.items() if name != "default"},
    events=[(event.table, event.tau) for event in events],
    capacity=capacities["default"],
    n_step=n_step,
  )
  episodes = [*draw(episodes_of(len(events))), *draw(episodes_of(len(events)))]
  return config, episodes, draw(st.lists(st.integers(0, 6), max_size=8))


_SETTINGS = settings(
  max_examples=40,
  deadline=None,
  derandomize=True,
  database=None,
  phases=(Phase.generate,),  # Shrinking would take minutes, as every example starts a server.
)


@_SETTINGS
@given(_scenarios(n_step=1))
def test_with_1_step_rows_both_hold_the_same_steps_in_the_same_order(
  scenario: tuple[RunConfig, list[Episode], list[int]],
) -> None:
  of_server, of_memory = _play(*scenario)
  assert of_memory == of_server


@settings(_SETTINGS, max_examples=15)
@given(_scenarios(n_step=3))
def test_with_n_step_rows_both_hold_the_same_steps(scenario: tuple[RunConfig, list[Episode], list[int]]) -> None:
  of_server, of_memory = _play(*scenario)
  assert {name: sorted(keys) for name, keys in of_memory.items()} == {
    name: sorted(keys) for name, keys in of_server.items()
  }

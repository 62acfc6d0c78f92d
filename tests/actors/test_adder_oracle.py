"""The adder, through a real server, against an oracle of Algorithm 1."""

import contextlib
import pathlib
import tempfile

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from configs import RunConfig
from tests.actors.oracle import Episode, Event, Row, Step, replay
from tests.serving import CODEC, adding, drain, first, make_config, serving, size_of, step

GAMMA = 0.75
TABLES = ("left", "middle", "right")


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, int], tuple[Event, ...]]:
  """Capacities, that of the default table included, and events of which several may share a table."""
  names = TABLES[: draw(st.integers(1, len(TABLES)))]
  capacities = {name: draw(st.integers(1, 14)) for name in names}
  # Every table is fed by at least one event; the further events are arbitrary.
  fed = [*names, *draw(st.lists(st.sampled_from(names), max_size=3))]
  events = tuple(Event(table, draw(st.integers(1, capacities[table]))) for table in draw(st.permutations(fed)))
  return {"default": draw(st.integers(1, 20)), **capacities}, events


@st.composite
def episodes_of(draw: st.DrawFn, events: int) -> list[Episode]:
  """Several episodes of 1 to 12 steps, with events at about every third step."""
  masks = st.one_of(st.just(0), st.just(0), st.integers(0, 2**events - 1))
  steps = st.builds(
    Step,
    action=st.integers(0, 2),
    reward=st.sampled_from([-1.0, 0.0, 0.5, 3.0]),
    discount=st.sampled_from([1.0, 1.0, 0.5]),
    events=masks,
  )
  return draw(
    st.lists(
      st.builds(Episode, st.lists(steps, min_size=1, max_size=12), st.booleans()),
      min_size=1,
      max_size=4,
    )
  )


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[dict[str, int], tuple[Event, ...], list[Episode], int]:
  capacities, events = draw(layouts())
  return capacities, events, draw(episodes_of(len(events))), draw(st.sampled_from([1, 2, 3, 5]))


def _play(config: RunConfig, episodes: list[Episode], writer_id: int) -> dict[str, list[dict[str, np.ndarray]]]:
  """The rows of every table after the adder has taken the episodes."""
  names = [table.name for table in config.replay.all_tables]
  with contextlib.ExitStack() as stack:
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = stack.enter_context(serving(config, folder, inline=True))
    with adding(server, writer_id) as (adder, _):
      for number, episode in enumerate(episodes):
        adder.add_first(first(episode.observation(number, 0)))
        for t, taken in enumerate(episode.steps):
          over = t == len(episode.steps) - 1
          discount = 0.0 if over and episode.terminated else taken.discount
          after = step(
            episode.observation(number, t + 1),
            taken.reward,
            taken.events,
            terminated=over and episode.terminated,
            truncated=over and not episode.terminated,
            discount=discount,
          )
          adder.add(np.int32(taken.action), after, {"policy_version": number + 1})
      sizes = {name: size_of(server.connection, name) for name in names}
      held = {name: drain(server.connection, name) for name in names}
  assert {name: len(rows) for name, rows in held.items()} == sizes
  return held


def _ended(episode: Episode) -> Episode:
  """The episode with a last discount of 0 if it terminated, as environments give it."""
  if not episode.terminated:
    return episode
  *before, last = episode.steps
  return Episode([*before, Step(last.action, last.reward, 0.0, last.events)], terminated=True)


def _assert_same(held: dict[str, np.ndarray], expected: Row) -> None:
  assert set(held) == set(expected) == {field.name for field in CODEC.fields}
  for name, value in expected.items():
    if name in ("reward", "discount"):
      np.testing.assert_allclose(held[name], value, rtol=1e-6, atol=1e-6, err_msg=name)
    else:
      np.testing.assert_array_equal(held[name], value, err_msg=name)


@settings(
  max_examples=60,
  deadline=None,
  derandomize=True,
  database=None,
  phases=(Phase.generate,),  # Shrinking would take minutes, as every example starts a server.
  report_multiple_bugs=False,
)
@given(scenarios(), st.integers(0, 2**31 - 1))
def test_every_table_holds_the_rows_of_algorithm_1_in_their_order(
  scenario: tuple[dict[str, int], tuple[Event, ...], list[Episode], int], writer_id: int
) -> None:
  capacities, events, episodes, n_step = scenario
  config = make_config(
    tables={name: capacity for name, capacity in capacities.items() if name != "default"},
    events=[(event.table, event.tau) for event in events],
    capacity=capacities["default"],
    n_step=n_step,
    discount=GAMMA,
  )
  expected = replay([_ended(episode) for episode in episodes], events, capacities, n_step, GAMMA, writer_id << 32)
  held = _play(config, episodes, writer_id)
  for name, rows in expected.items():
    keys = [(row["episode"], row["step"]) for row in rows]
    assert [(int(row["episode"]), int(row["step"])) for row in held[name]] == keys, name
    for row, wanted in zip(held[name], rows, strict=True):
      _assert_same(row, wanted)


def test_the_oracle_agrees_with_an_example_worked_by_hand() -> None:
  # Two events of tau 3 on one table, at steps 4 and 5 of an episode of 7, and a default table of 2.
  episode = Episode([Step(0, 1.0, 1.0, 1 if t in (4, 5) else 0) for t in range(7)], terminated=False)
  tables = replay([episode], [Event("goal", 3)], {"default": 2, "goal": 10}, n_step=1, gamma=0.5, first_episode_id=0)
  assert [row["step"] for row in tables["default"]] == [5, 6]
  assert [row["step"] for row in tables["goal"]] == [2, 3, 4, 5]
  tables = replay([episode], [Event("goal", 3)], {"default": 9, "goal": 10}, n_step=3, gamma=0.5, first_episode_id=0)
  assert [row["reward"] for row in tables["default"]] == [1.75] * 5 + [1.5, 1.0]
  assert [row["step"] for row in tables["goal"]] == [2, 3, 4, 5]

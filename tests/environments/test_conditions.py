"""Conditions to build events from: truth tables by hand, and random ones against an oracle in plain Python."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstream
from configs import EventSpec, UserError, from_json, load_config, override, to_json
from environments import EventMonitor, EventStep, ThreeRooms, make_event_environment
from environments.conditions import And, EpisodeEnd, Held, Info, Not, Or, Region, Rising, Then, Threshold

MODULE = """
  class Third:
    '''Fires at the third step; what it counts exists from reset() on.'''

    def reset(self):
      self.steps = 0

    def __call__(self, step):
      self.steps += 1
      return self.steps == 3

  def above(step, least):
    return step.reward > least

  def one(step):
    return 1
"""


@pytest.fixture
def user_parts(tmp_path, monkeypatch):
  (tmp_path / "user_parts.py").write_text(textwrap.dedent(MODULE))
  monkeypatch.syspath_prepend(str(tmp_path))


def make_step(
  reward: float = 0.0,
  info: Mapping[str, Any] | None = None,
  observation: Any = 0.0,
  next_observation: Any = 0.0,
  terminated: bool = False,
  truncated: bool = False,
) -> EventStep:
  return EventStep(observation, 0, reward, next_observation, info or {}, terminated, truncated)


def make_monitor(name: str, **arguments: Any) -> EventMonitor:
  """The monitor of one event whose arguments went through JSON."""
  spec = EventSpec("event", f"environments.conditions:{name}", 1, arguments=json.loads(json.dumps(arguments)))
  monitor = EventMonitor([spec])
  monitor.reset()
  return monitor


def part(name: str, **arguments: Any) -> dict[str, Any]:
  return {"condition": f"environments.conditions:{name}", "arguments": arguments}


A, B = part("Info", key="a"), part("Info", key="b")


def fired(monitor: EventMonitor, **traces: str) -> str:
  """Where a condition fires in an episode whose `info` follows `traces`, as "0110"."""
  monitor.reset()
  steps = zip(*traces.values(), strict=True)
  return "".join(str(monitor(make_step(info=dict(zip(traces, map(int, step), strict=True))))) for step in steps)


@pytest.mark.parametrize(
  ("arguments", "step", "fires"),
  [
    ({"above": 8}, make_step(8.0), False),
    ({"above": 8}, make_step(8.01), True),
    ({"below": -1}, make_step(-1.0), False),
    ({"below": -1}, make_step(-1.5), True),
    ({"above": 0, "below": 1}, make_step(0.5), True),
    ({"above": 0, "below": 1}, make_step(1.0), False),
    ({"above": 0}, make_step(float("nan")), False),
    ({"below": 0}, make_step(float("nan")), False),
    ({"of": "info", "key": "speed", "above": 30}, make_step(info={"speed": np.float32(31)}), True),
    ({"of": "info", "key": "speed", "above": 30}, make_step(info={"speed": np.array(29)}), False),
    ({"of": "info", "key": "won", "above": 0.5}, make_step(info={"won": np.bool_(True)}), True),
    ({"of": "next_observation", "key": 1, "above": 0}, make_step(next_observation=np.array([-1.0, 2.0])), True),
    ({"of": "next_observation", "key": 0, "above": 0}, make_step(next_observation=np.array([-1.0, 2.0])), False),
    ({"of": "observation", "key": [1, 0], "above": 2.5}, make_step(observation=np.array([[1, 2], [3, 4]])), True),
    ({"of": "observation", "key": [0, 1], "above": 2.5}, make_step(observation=np.array([[1, 2], [3, 4]])), False),
    ({"of": "next_observation", "above": 6}, make_step(next_observation=np.array(7, np.int32)), True),
    ({"of": "next_observation", "below": 6}, make_step(next_observation=np.array([7.0])), False),
  ],
)
def test_a_threshold_compares_one_number_of_the_step(arguments, step, fires):
  assert make_monitor("Threshold", **arguments)(step) == fires


@pytest.mark.parametrize(
  ("arguments", "point", "fires"),
  [
    ({"low": [0, 0], "high": [1, 2]}, [0, 2], True),
    ({"low": [0, 0], "high": [1, 2]}, [0.5, 2.1], False),
    ({"low": [0, 0], "high": [1, 2]}, [-0.1, 1], False),
    ({"low": [0], "high": [1]}, [0.5, 99, 99], True),
    ({"low": [None, 0], "high": [None, None]}, [-99, 5], True),
    ({"low": [None, 0], "high": [None, None]}, [-99, -1], False),
    ({"low": [3], "high": [3], "dimensions": [2]}, [0, 0, 3], True),
    ({"low": [3, 0], "high": [4, 1], "dimensions": [2, 0]}, [0.5, 9, 3.5], True),
    ({"low": [3, 0], "high": [4, 1], "dimensions": [2, 0]}, [3.5, 9, 0.5], False),
    ({"low": [None], "high": [None]}, [float("nan")], False),
    # A picture's pixels in C order: (1, 0) is the third of four.
    ({"low": [7], "high": [7], "dimensions": [2]}, [[0, 0], [7, 0]], True),
  ],
)
def test_a_region_is_a_box_with_its_faces(arguments, point, fires):
  assert make_monitor("Region", **arguments)(make_step(next_observation=np.array(point))) == fires


def test_a_region_of_an_observation_that_is_one_number():
  monitor = make_monitor("Region", low=[2], high=[3])
  assert [monitor(make_step(next_observation=np.array(value))) for value in (1, 2, 3, 4)] == [0, 1, 1, 0]


@pytest.mark.parametrize(
  ("arguments", "info", "fires"),
  [
    ({"key": "a"}, {"a": True}, True),
    ({"key": "a"}, {"a": np.bool_(False)}, False),
    ({"key": "a"}, {"a": "text"}, True),
    ({"key": "a"}, {"a": ()}, False),
    ({"key": "a", "equals": "red"}, {"a": "red"}, True),
    ({"key": "a", "equals": "red"}, {"a": "blue"}, False),
    ({"key": "a", "equals": 0}, {"a": np.int64(0)}, True),
    ({"key": "a", "equals": False}, {"a": True}, False),
    ({"key": "a", "equals": [5, 0]}, {"a": (5, 0)}, True),
    ({"key": "a", "equals": [5, 0]}, {"a": np.array([5, 0])}, True),
    ({"key": "a", "equals": [5, 0]}, {"a": (5, 1)}, False),
    ({"key": "a", "optional": True}, {}, False),
    ({"key": "a", "optional": True, "equals": 1}, {"a": 1}, True),
  ],
)
def test_info_asks_for_a_true_or_an_equal_value(arguments, info, fires):
  assert make_monitor("Info", **arguments)(make_step(info=info)) == fires


def test_and_or_not_have_their_truth_tables():
  traces = {"a": "0011", "b": "0101"}
  assert fired(make_monitor("And", conditions=[A, B]), **traces) == "0001"
  assert fired(make_monitor("Or", conditions=[A, B]), **traces) == "0111"
  assert fired(make_monitor("Not", condition=A), **traces) == "1100"
  assert fired(make_monitor("And", conditions=[A]), **traces) == "0011"


@pytest.mark.parametrize(
  ("trace", "rises"), [("0110", "0100"), ("1101", "1001"), ("0000", "0000"), ("1111", "1000"), ("0101", "0101")]
)
def test_rising_fires_when_its_part_starts_to_fire(trace, rises):
  assert fired(make_monitor("Rising", condition=A), a=trace) == rises


@pytest.mark.parametrize(
  ("trace", "steps", "holds"),
  [("1111", 1, "1111"), ("01110111", 3, "00010001"), ("11111", 3, "00111"), ("11", 3, "00")],
)
def test_held_fires_while_its_part_has_fired_for_n_steps(trace, steps, holds):
  assert fired(make_monitor("Held", condition=A, steps=steps), a=trace) == holds


@pytest.mark.parametrize(
  ("first", "second", "within", "fires"),
  [
    ("100000", "000100", 3, "000100"),
    ("100000", "000100", 2, "000000"),
    ("100000", "000100", None, "000100"),
    # Each firing uses up what came first.
    ("100000", "011100", 5, "010000"),
    ("110000", "001100", 5, "001000"),
    # A first at the step of a firing begins the next.
    ("101000", "001010", 5, "001010"),
    # At the same step, neither comes after the other.
    ("100000", "100000", 5, "000000"),
    # The latest first counts.
    ("100100", "000010", 1, "000010"),
    ("000000", "111111", None, "000000"),
  ],
)
def test_then_fires_when_one_comes_after_the_other_in_time(first, second, within, fires):
  assert fired(make_monitor("Then", first=A, second=B, within=within), a=first, b=second) == fires


def test_the_racing_event_fires_once_when_the_car_has_been_back_on_the_track_for_long_enough():
  on = part("Info", key="on")
  monitor = make_monitor("Then", first=part("Not", condition=on), second=part("Held", condition=on, steps=3))
  # Two steps back are not enough, and a third firing would take another leaving.
  assert fired(monitor, on="1110110111110111") == "0000000001000001"


@pytest.mark.parametrize(
  ("arguments", "fires"),
  [
    ({}, [0, 1, 1, 1]),
    ({"by": "terminated"}, [0, 1, 0, 1]),
    ({"by": "truncated"}, [0, 0, 1, 0]),
    ({"condition": part("Threshold", above=0)}, [0, 0, 0, 0]),
    ({"condition": part("Threshold", below=1), "by": "truncated"}, [0, 0, 1, 0]),
  ],
)
def test_episode_end_may_ask_for_one_kind_of_end_and_for_a_condition(arguments, fires):
  monitor = make_monitor("EpisodeEnd", **arguments)
  ends = [(False, False), (True, False), (False, True), (True, True)]
  assert [monitor(make_step(terminated=terminated, truncated=truncated)) for terminated, truncated in ends] == fires


def test_every_part_sees_every_step_whatever_the_others_return(user_parts):
  first = part("Info", key="a")
  assert fired(make_monitor("And", conditions=[first, "user_parts:Third"]), a="0011") == "0010"
  assert fired(make_monitor("Or", conditions=[first, "user_parts:Third"]), a="1100") == "1110"
  assert fired(make_monitor("EpisodeEnd", condition="user_parts:Third"), a="000") == "000"


def test_parts_of_the_user_are_reset_at_every_depth(user_parts):
  monitor = make_monitor("Not", condition=part("Or", conditions=[{"condition": "user_parts:Third"}]))
  assert [fired(monitor, a="0000") for _ in range(2)] == ["1101"] * 2


def test_a_function_of_the_user_gets_its_arguments(user_parts):
  monitor = make_monitor("Not", condition={"condition": "user_parts:above", "arguments": {"least": 2}})
  assert [monitor(make_step(reward)) for reward in (2.0, 3.0)] == [1, 0]


def test_conditions_may_be_built_in_python():
  class Landed(And):
    def __init__(self, height: float):
      super().__init__([Threshold("info", "height", below=height), Not(Info("crashed"))])

  landed = Landed(0.5)
  assert landed(make_step(info={"height": 0.1, "crashed": False}))
  assert not landed(make_step(info={"height": 0.1, "crashed": True}))


# Trees of conditions over the keys "a", "b" and "c" of info.
Tree = dict[str, Any]
trees: st.SearchStrategy[Tree] = st.recursive(
  st.sampled_from("abc").map(lambda key: part("Info", key=key)),
  lambda inner: st.one_of(
    st.lists(inner, min_size=1, max_size=3).map(lambda parts: part("And", conditions=parts)),
    st.lists(inner, min_size=1, max_size=3).map(lambda parts: part("Or", conditions=parts)),
    inner.map(lambda one: part("Not", condition=one)),
    inner.map(lambda one: part("Rising", condition=one)),
    st.builds(lambda one, steps: part("Held", condition=one, steps=steps), inner, st.integers(1, 4)),
    st.builds(
      lambda first, second, within: part("Then", first=first, second=second, within=within),
      inner,
      inner,
      st.none() | st.integers(1, 5),
    ),
    st.builds(lambda one, by: part("EpisodeEnd", condition=one, by=by), inner, st.sampled_from(["any", "truncated"])),
  ),
  max_leaves=6,
)
traces = st.lists(st.fixed_dictionaries({key: st.booleans() for key in "abc"}), min_size=1, max_size=20)


def oracle(tree: Tree, episode: Sequence[Mapping[str, bool]], truncated: bool) -> list[bool]:
  """Where the condition fires, from the whole episode at once."""
  kind, arguments = tree["condition"].partition(":")[2], tree["arguments"]
  steps = range(len(episode))
  if kind == "Info":
    return [infos[arguments["key"]] for infos in episode]
  if kind in ("And", "Or"):
    columns = [oracle(one, episode, truncated) for one in arguments["conditions"]]
    return [(all if kind == "And" else any)(column[t] for column in columns) for t in steps]
  if kind == "Then":
    first, second = (oracle(arguments[name], episode, truncated) for name in ("first", "second"))
    within = arguments["within"] or len(episode)
    fires: list[bool] = []
    for t in steps:
      unused = [s for s in range(max(0, t - within), t) if first[s] and not any(fires[s + 1 :])]
      fires.append(second[t] and bool(unused))
    return fires
  inner = oracle(arguments["condition"], episode, truncated)
  if kind == "Not":
    return [not value for value in inner]
  if kind == "Rising":
    return [value and not (t and inner[t - 1]) for t, value in enumerate(inner)]
  if kind == "Held":
    count = arguments["steps"]
    return [t + 1 >= count and all(inner[t + 1 - count : t + 1]) for t in steps]
  ended = truncated or arguments["by"] == "any"
  return [value and ended and t == len(episode) - 1 for t, value in enumerate(inner)]


@settings(deadline=None)
@given(trees, st.lists(st.tuples(traces, st.booleans()), min_size=1, max_size=3))
def test_any_condition_fires_where_the_oracle_says_in_every_episode(tree, episodes):
  monitor = make_monitor(tree["condition"].partition(":")[2], **tree["arguments"])
  for episode, truncated in episodes:
    monitor.reset()
    last = len(episode) - 1
    masks = [
      monitor(make_step(info=infos, terminated=t == last and not truncated, truncated=t == last and truncated))
      for t, infos in enumerate(episode)
    ]
    assert masks == oracle(tree, episode, truncated)


def test_a_nested_condition_travels_as_json_and_is_reached_by_an_override():
  arguments = {"condition": part("And", conditions=[A, part("Threshold", of="info", key="b", above=2)]), "steps": 2}
  config = load_config("three_rooms")
  data = json.loads(to_json(config))
  data["events"][0]["condition"] = "environments.conditions:Held"
  data["events"][0]["arguments"] = arguments
  config = from_json(json.dumps(data))
  assert config.events[0].arguments == arguments
  changed = override(config, {"events.at_gap.arguments.steps": "5"})
  assert changed.events[0].arguments["steps"] == 5


def test_events_of_a_world_without_a_line_of_python():
  config = override(
    load_config("three_rooms"),
    {
      "events.at_gap.condition": "environments.conditions:Rising",
      "events.at_gap.arguments": str(
        {"condition": part("Or", conditions=[part("Info", key="position", equals=gap) for gap in ([5, 0], [11, 4])])}
      ),
      "events.done.condition": "environments.conditions:EpisodeEnd",
      "events.done.arguments": str({"condition": part("Threshold", above=0), "by": "terminated"}),
    },
  )
  built_in, built = (make_event_environment(one) for one in (load_config("three_rooms"), config))
  assert isinstance(built_in.gym_env, ThreeRooms)
  path = built_in.gym_env.shortest_path()
  masks = [[env.reset().events, *(env.step(action).events for action in path)] for env in (built_in, built)]
  assert masks[0] == masks[1]
  assert [mask for mask in masks[0] if mask] == [1, 1, 2]


@pytest.mark.parametrize(
  "name", ["And", "EpisodeEnd", "Held", "Info", "Not", "Or", "Region", "Rising", "Then", "Threshold"]
)
def test_slipstream_exports_every_condition(name):
  import environments.conditions

  assert getattr(slipstream, name) is getattr(environments.conditions, name)


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (lambda: Threshold(), r"^Threshold has neither above nor below: give one of them, or both\.$"),
    (
      lambda: Threshold("rewards", above=1),  # type: ignore[arg-type]  # The mistake.
      r"^Threshold looks at 'rewards': of must be one of reward, observation, next",
    ),
    (lambda: Threshold(above="8"), r"^Threshold has above '8': it must be a finite number\.$"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Threshold(below=True), r"^Threshold has below True: it must be a finite number\.$"),
    (lambda: Threshold(above=float("inf")), r"^Threshold has above inf"),
    (
      lambda: Threshold(above=2, below=2),
      r"^Threshold is above 2 and below 2, but no number is both: exchange them\.$",
    ),
    (
      lambda: Threshold(key="x", above=2),
      r"^Threshold has the key 'x' of a reward, which is one number: leave the key",
    ),
    (lambda: Threshold("info", above=2), r"^Threshold has the key None of info: it must be a string\.$"),
    (lambda: Threshold("observation", "x", above=2), r"^Threshold has the key 'x' of observation: it must be a whole"),
    (lambda: Threshold("observation", -1, above=2), r"^Threshold has the key -1 of observation"),
    (lambda: Threshold("observation", [0, True], above=2), r"^Threshold has the key \[0, True\] of observation"),
    (lambda: Region([], []), r"^Region has the low \[\]: give a list with a number, or null, for each dimension\.$"),
    (lambda: Region([0], 3), r"^Region has the high 3: give a list"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Region([0], [1, 2]), r"^Region has 1 dimensions, 1 low and 2 high bounds: give as many of each\.$"),
    (lambda: Region([0], [1], [0, 1]), r"^Region has 2 dimensions, 1 low and 1 high bounds"),
    (lambda: Region([0], [1], [-1]), r"^Region has the dimensions \[-1\]: give a list of whole numbers from 0\.$"),
    (lambda: Region([0], [1], 2), r"^Region has the dimensions 2"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Region([0, 0], [1, 1], [1, 1]), r"^Region has the dimensions \[1, 1\]: name each once\.$"),
    (lambda: Region([0, 3], [1, 2]), r"^Region has the low bounds \[0, 3\] above the high bounds \[1, 2\]: exchange"),
    (lambda: Region([float("nan")], [2]), r"^Region has low nan: it must be a finite number\.$"),
    (lambda: Info(""), r"^Info has the key '' of info: it must be a string\.$"),
    (lambda: Info("a", optional=1), r"^Info has optional=1: it must be true or false\.$"),  # type: ignore[arg-type]  # The mistake.
    (lambda: And([]), r"^And has the conditions \[\]: give a list of at least one\.$"),
    (lambda: Or("a:b"), r"^Or has the conditions 'a:b': give a list of at least one\.$"),
    (lambda: Held(A, 0), r"^Held has steps=0: it must be a whole number of at least 1 step\.$"),
    (lambda: Held(A, 2.5), r"^Held has steps=2\.5"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Then(A, B, 0), r"^Then has within=0: it must be a whole number of at least 1 step\.$"),
    (lambda: EpisodeEnd(by="crash"), r"^EpisodeEnd has by='crash': use one of any, terminated, truncated\.$"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Not(3), r"^A part of Not is 3: write it as 'module:name' or"),  # type: ignore[arg-type]  # The mistake.
    (lambda: Not("info"), r"^A part of Not is 'info': write it as 'module:name'\.$"),
    (lambda: Not({"arguments": {}}), r"^A part of Not is {'arguments': {}}: write it as {'condition': 'module:name'"),
    (lambda: Not({**A, "history": 3}), r"^A part of Not is {.*'history': 3.*}: write it as .*, without other keys\.$"),
    (lambda: Not({**A, "arguments": 3}), r"^A part of Not is {.*'arguments': 3.*}: write it as"),
    (
      lambda: Rising({"condition": "environments.conditions:Tershold"}),
      r"^A part of Rising, 'environments\.conditions:Tershold', cannot be loaded: .*did you mean 'Threshold'\?$",
    ),
    (
      lambda: Rising(part("Threshold", abvoe=3)),
      r"^A part of Rising, 'environments\.conditions:Threshold', cannot be made with the arguments {'abvoe': 3} \(Type",
    ),
    (
      lambda: Rising(part("Threshold")),
      r"^A part of Rising, 'environments\.conditions:Threshold', cannot be made: Threshold has neither above nor below:",
    ),
  ],
)
def test_a_mistaken_argument_is_refused_with_what_to_do(make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()


def test_a_mistake_deep_in_an_event_names_the_event():
  sentence = (
    r"^The condition of event 'event', 'environments\.conditions:Not', cannot be made: A part of Not, "
    r"'environments\.conditions:Held', cannot be made: Held has steps=0: it must be a whole number of at least 1 step\.$"
  )
  with pytest.raises(UserError, match=sentence):
    make_monitor("Not", condition=part("Held", condition=A, steps=0))


@pytest.mark.parametrize(
  ("monitor", "step", "sentence"),
  [
    (("Info", {"key": "a"}), make_step(info={"b": 1}), r"Info looks for 'a' in an info with 'b': correct the key\.$"),
    (("Info", {"key": "a"}), make_step(), r"Info looks for 'a' in an info with nothing: correct the key\.$"),
    (
      ("Threshold", {"of": "info", "key": "a", "above": 1}),
      make_step(info={"a": "fast"}),
      r"Threshold found 'fast' under 'a' of info: it compares one real number\.$",
    ),
    (
      ("Threshold", {"of": "next_observation", "key": 2, "above": 1}),
      make_step(next_observation=np.zeros(2)),
      r"Threshold has the key \[2\] of next_observation, which has the shape \(2,\): give an index into it\.$",
    ),
    (
      ("Threshold", {"of": "next_observation", "above": 1}),
      make_step(next_observation=np.zeros(2)),
      r"Threshold has the key \[\] of next_observation, which has the shape \(2,\): give an index into it\.$",
    ),
    (
      ("Region", {"low": [0], "high": [1], "dimensions": [2]}),
      make_step(next_observation=np.zeros(2)),
      r"Region looks at dimension 2 of an observation of 2 values: lower it\.$",
    ),
    (("Not", {"condition": "user_parts:one"}), make_step(), r"A part of Not returned a int \(1\): it must return True"),
  ],
)
def test_a_condition_that_does_not_fit_the_step_is_refused_with_the_events_name(user_parts, monitor, step, sentence):
  name, arguments = monitor
  with pytest.raises(UserError, match=f"^The condition of event 'event' failed: {sentence}"):
    make_monitor(name, **arguments)(step)

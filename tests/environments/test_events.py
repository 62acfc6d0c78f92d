"""Event conditions: loading them, and the mask that the monitor makes."""

import textwrap

import numpy as np
import pytest

from configs import EventSpec, UserError
from environments import EventMonitor, EventStep, load_reference

MODULE = """
  import functools

  def true(step):
    return True

  def false(step):
    return False

  def above(step, threshold):
    return step.reward > threshold

  def returns(step, value):
    return value

  def numpy_true(step):
    import numpy
    return numpy.bool_(True)

  def raises(step):
    raise KeyError("speed")

  def no_parameters():
    return True

  class Third:
    '''Fires at the third step of an episode.'''

    def __init__(self, count=3):
      self.count = count

    def reset(self):
      self.steps = 0

    def __call__(self, step):
      self.steps += 1
      return self.steps == self.count

  class NoReset:
    def __call__(self, step):
      return True

  class NotCallable:
    pass

  class Broken:
    def __init__(self):
      raise RuntimeError("no licence")

  class BrokenReset:
    def reset(self):
      raise RuntimeError("no licence")

    def __call__(self, step):
      return True

  class Locked(Third):
    def __deepcopy__(self, memo):
      raise TypeError("cannot pickle a lock")

  third = Third()
  locked = Locked()

  CONSTANT = 3
"""


@pytest.fixture
def conditions(tmp_path, monkeypatch):
  """A module of a user, importable as `user_conditions`."""
  (tmp_path / "user_conditions.py").write_text(textwrap.dedent(MODULE))
  (tmp_path / "user_raises.py").write_text("raise ValueError('bad table')")
  (tmp_path / "user_imports_missing.py").write_text("import a_package_that_is_missing")
  (tmp_path / "user_refuses.py").write_text("from configs import UserError\nraise UserError('Plug the console in.')")
  monkeypatch.syspath_prepend(str(tmp_path))


def make_step(reward=0.0, info=None):
  return EventStep(np.zeros(1), 0, reward, np.ones(1), info or {}, False, False)


def make_monitor(*names, **arguments):
  specs = [EventSpec(f"event{i}", f"user_conditions:{name}", 1, arguments=arguments) for i, name in enumerate(names)]
  return EventMonitor(specs)


def test_bit_i_of_the_mask_is_event_i(conditions):
  monitor = make_monitor("true", "false", "true")
  assert monitor(make_step()) == 0b101


def test_no_events_give_an_empty_mask():
  monitor = EventMonitor([])
  monitor.reset()
  assert monitor(make_step()) == 0


def test_the_last_of_31_events_has_bit_30(conditions):
  assert make_monitor(*["false"] * 30, "true")(make_step()) == 1 << 30


def test_a_function_gets_its_arguments(conditions):
  monitor = make_monitor("above", threshold=8)
  assert [monitor(make_step(reward)) for reward in (8.0, 9.0)] == [0, 1]


def test_a_condition_may_return_a_numpy_bool(conditions):
  assert make_monitor("numpy_true")(make_step()) == 1


def test_a_class_keeps_its_state_in_an_episode_and_is_reset_between_two(conditions):
  monitor = make_monitor("Third")
  for _ in range(2):
    monitor.reset()
    assert [monitor(make_step()) for _ in range(4)] == [0, 0, 1, 0]


def test_a_class_gets_its_arguments(conditions):
  monitor = make_monitor("Third", count=1)
  monitor.reset()
  assert monitor(make_step()) == 1


def test_two_monitors_share_no_state(conditions):
  first, second = make_monitor("Third"), make_monitor("Third")
  first.reset()
  second.reset()
  assert [first(make_step()), first(make_step()), second(make_step()), first(make_step())] == [0, 0, 0, 1]


def test_a_class_needs_no_reset(conditions):
  monitor = make_monitor("NoReset")
  monitor.reset()
  assert monitor(make_step()) == 1


def test_an_object_counts_for_each_environment_by_itself(conditions):
  monitors = make_monitor("third"), make_monitor("third")
  for monitor in monitors:
    monitor.reset()
  step = make_step()
  assert [monitor(step) for _ in range(3) for monitor in monitors] == [0, 0, 0, 0, 1, 1]
  monitors[0].reset()
  assert [monitor(step) for monitor in monitors] == [0, 0]


@pytest.mark.parametrize("value", [1, 0, None, "yes", 1.0])
def test_a_result_that_is_not_a_bool_is_refused(conditions, value):
  with pytest.raises(UserError, match=r"condition of event 'event0' returned a .*: it must return True or False\."):
    make_monitor("returns", value=value)(make_step())


def test_a_condition_that_raises_is_named(conditions):
  with pytest.raises(UserError, match=r"The condition of event 'event1' raised KeyError \('speed'\): fix it\."):
    make_monitor("true", "raises")(make_step())


def test_a_reset_that_raises_is_named(conditions):
  with pytest.raises(UserError, match=r"The reset\(\) of event 'event0' raised RuntimeError \(no licence\)"):
    make_monitor("BrokenReset").reset()


@pytest.mark.parametrize(
  ("name", "arguments", "sentence"),
  [
    ("NotCallable", {}, r"is a class without __call__"),
    ("Broken", {}, r"cannot be made with the arguments {} \(RuntimeError: no licence\)"),
    ("Third", {"cuont": 3}, r"cannot be made with the arguments {'cuont': 3} \(TypeError: .*'cuont'"),
    (
      "above",
      {"treshold": 3},
      r"cannot be called with a step and the arguments {'treshold': 3} \(missing.*'threshold'",
    ),
    ("above", {}, r"cannot be called with a step \(missing a required argument: 'threshold'\)"),
    ("true", {"a": 1}, r"cannot be called with a step and the arguments .*'a'"),
    ("third", {"count": 2}, r"is an object, which takes no arguments: name its class, or leave them out\."),
    (
      "locked",
      {},
      r"is an object that cannot be copied for each environment \(TypeError: cannot pickle a lock\): name",
    ),
    ("no_parameters", {}, r"cannot be called with a step \(too many positional arguments\)"),
  ],
)
def test_a_condition_that_cannot_take_a_step_is_refused_when_it_is_loaded(conditions, name, arguments, sentence):
  with pytest.raises(UserError, match=f"The condition of event 'event0', 'user_conditions:{name}', {sentence}"):
    make_monitor(name, **arguments)


def test_a_reference_gives_a_function_or_an_attribute_of_a_class():
  assert load_reference("json:dumps", "It")([1]) == "[1]"
  assert load_reference("json:JSONDecoder.decode", "It").__name__ == "decode"


@pytest.mark.parametrize(
  ("reference", "sentence"),
  [
    ("json", r"It is 'json': write it as 'module:name'\."),
    (":dumps", r"It is ':dumps': write it as 'module:name'\."),
    ("json:", r"It is 'json:': write it as 'module:name'\."),
    ("not_there:f", r"there is no module 'not_there', install its package or give its folder with --pythonpath\."),
    ("json.not_there:f", r"there is no module 'json.not_there'"),
    ("json.tool.deep:f", r"there is no module 'json.tool.deep'"),
    ("json:dmups", r"module 'json' has no 'dmups', did you mean 'dumps'\?"),
    ("json:qqqqqqqqq", r"module 'json' has no 'qqqqqqqqq', check the spelling\."),
    ("json:JSONDecoder.qqqqqqqqq", r"type 'JSONDecoder' has no 'qqqqqqqqq'"),
    ("user_conditions:CONSTANT", r"is a int: name a function or a class\."),
    ("user_raises:f", r"importing the module 'user_raises' raised ValueError \(bad table\), fix the module\."),
    ("user_imports_missing:f", r"importing the module 'user_imports_missing' raised ModuleNotFoundError"),
    ("user_refuses:f", r"^Plug the console in\.$"),
  ],
)
def test_a_reference_that_cannot_be_loaded_is_refused_with_what_to_do(conditions, reference, sentence):
  with pytest.raises(UserError, match=sentence):
    load_reference(reference, "It")

"""What a world does wrong is one sentence that names the world and the call, with the traceback of the world's own frames."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from configs import PRESETS, EnvironmentConfig, RunConfig, UserError, load_config, override
from environments import EventEnvironment, make_event_environment
from environments.answers import FIRST_STEPS
from tests import faulty_world

FAULTY = "tests.faulty_world:Faulty"


def make_faulty(name=FAULTY, check="first", **arguments):
  return make_event_environment(RunConfig(environment=EnvironmentConfig(name, arguments, check=check)), seed=0)


def play(env, steps=50):
  """Takes steps, episode after episode."""
  env.reset()
  for _ in range(steps):
    env.step(0)


@pytest.mark.parametrize(
  ("arguments", "call"), [({"in_reset": "raise", "after": 25}, "reset"), ({"in_step": "raise", "after": 25}, "step")]
)
def test_a_world_that_raises_is_named_with_the_call_and_its_own_frames(arguments, call):
  env = make_faulty(**arguments)
  with pytest.raises(UserError) as caught:
    play(env)
  assert str(caught.value) == f"The environment '{FAULTY}' raised KeyError ('no such\\nroom') in {call}: fix it."
  lines = caught.value.trace.splitlines()
  assert lines[0] == "Traceback (most recent call last):"
  assert [line for line in lines if line.startswith("  File ") and "faulty_world.py" not in line] == []
  assert f", in {call}" in lines[1]
  assert lines[-1].startswith("KeyError")


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ({"in_reset": "exit"}, "raised SystemExit (7) in reset: fix it."),
    ({"in_step": "exit"}, "raised SystemExit (7) in step: fix it."),
    ({"in_init": "exit"}, "cannot be made with the arguments {'in_init': 'exit'} (SystemExit: 7): check"),
    ({"in_init": "raise"}, "(KeyError: 'no such\\nroom'): check environment.name and environment.arguments."),
    ({"lacks": "observation_space"}, "has no observation_space: set it to one of gymnasium's spaces."),
    ({"lacks": "action_space"}, "has no action_space: set it to one of gymnasium's spaces."),
    (
      {"in_reset": "old_api"},
      "returned one value (ndarray) from reset and not two: let reset return (observation, info)",
    ),
    ({"in_step": "old_api"}, "returned 4 values from step and not five: let reset return"),
    ({"in_reset": "no_info"}, "returned the info None (NoneType) from reset: return a dict"),
    ({"in_step": "no_info"}, "returned the info None (NoneType) from step: return a dict"),
    ({"in_step": "number"}, "returned terminated = 0 (int) from step: return True or False"),
    ({"in_step": "text"}, "returned truncated = 'no' (str) from step: return True or False"),
    ({"in_step": "no_reward"}, "returned the reward None (NoneType) from step: it must be one finite number."),
    ({"in_step": "nan_reward"}, "returned the reward nan (float) from step: it must be one finite number."),
    ({"in_step": "measure_list"}, "that cannot be used: they are a list; give a dict of names and finite numbers"),
    ({"in_step": "measure_name"}, "'lap time' is no name of at most 64 letters, digits and underscores; give a dict"),
    ({"in_step": "nan_measure"}, "'lap' is nan (float), which is no finite number; give a dict"),
    ({"in_step": "text_measure"}, "'lap' is 1:33 (str), which is no finite number; give a dict"),
    ({"in_step": "many_measures"}, "they are 33, more than 32; give a dict"),
    ({"in_reset": "shape"}, "an observation from reset that is outside its observation_space: it has the shape (3,)"),
    (
      {"in_reset": "far"},
      "from reset that is outside its observation_space: it has 5.0 at [1], where the space has from",
    ),
    ({"in_step": "shape"}, "an observation from step that is outside its observation_space: it has the shape (2, 1)"),
    (
      {"in_step": "far"},
      "from step that is outside its observation_space: it has 5.0 at [1], where the space has from -1",
    ),
    ({"in_step": "nan"}, "from step that is outside its observation_space: it has nan at [1], which is not finite"),
    ({"in_step": "words"}, "from step that is outside its observation_space: 'nowhere' (str) is no array of numbers"),
    ({"in_step": "ragged"}, "from step that is outside its observation_space: it (list) is no array of numbers"),
  ],
  ids=str,
)
def test_every_fault_has_its_sentence(arguments, sentence):
  with pytest.raises(UserError) as caught:
    play(make_faulty(**arguments))
  said = str(caught.value)
  assert said.startswith(f"The environment '{FAULTY}' ")
  assert sentence in said
  assert "\n" not in said
  assert bool(caught.value.trace) == (set(arguments.values()) <= {"raise", "exit"})


@pytest.mark.parametrize(
  ("name", "layer"), [("tests.faulty_world:Seedless", "Seedless"), ("tests.faulty_world:wrapped", "Unseeded")]
)
def test_a_reset_without_a_seed_is_refused_when_the_environment_is_made(name, layer):
  with pytest.raises(UserError, match=rf"'{name}' cannot be reset with a seed: {layer}\.reset does not take 'seed'"):
    make_faulty(name)


def test_a_gymnasium_wrapper_that_cannot_unpack_an_old_answer_says_what_is_missing():
  env = EventEnvironment(gymnasium.wrappers.TimeLimit(faulty_world.Faulty(in_step="old_api"), 5))
  env.reset()
  with pytest.raises(
    UserError, match=r"'Faulty' does not return what gymnasium asks for from step \(not enough values"
  ):
    env.step(0)


def test_a_module_that_exits_when_it_is_imported_is_named(tmp_path, monkeypatch):
  (tmp_path / "exits_at_once.py").write_text("import sys\nsys.exit(5)\n")
  monkeypatch.syspath_prepend(str(tmp_path))
  with pytest.raises(UserError, match=r"importing the module 'exits_at_once' raised SystemExit \(5\)") as caught:
    make_faulty("exits_at_once:World")
  assert 'exits_at_once.py", line 2, in <module>' in caught.value.trace.splitlines()[1]


def test_a_frame_of_ours_below_the_users_is_shown():
  class Rooms(gymnasium.Wrapper):
    def step(self, action):
      return self.env.step(1 / 0)

  env = EventEnvironment(Rooms(faulty_world.Faulty()))
  env.reset()
  with pytest.raises(UserError) as caught:
    env.step(0)
  assert "1 / 0" in caught.value.trace
  assert "event_environment.py" not in caught.value.trace


def test_a_world_that_cannot_be_closed_says_so_and_ends_nothing(capsys):
  env = make_faulty(in_close="raise")
  play(env, 3)
  env.close()
  assert "raised KeyError ('no such\\nroom') in close: fix it." in capsys.readouterr().err


def test_a_picture_that_fails_is_named():
  class Undrawn(faulty_world.Faulty):
    def render(self):
      raise OSError("no screen")

  with pytest.raises(UserError, match=r"'Undrawn' raised OSError \(no screen\) in render: fix it\."):
    EventEnvironment(Undrawn()).render()


def test_the_message_of_a_long_exception_is_shortened():
  class Wordy(faulty_world.Faulty):
    def reset(self, *, seed=None, options=None):
      raise RuntimeError("word " * 1_000)

  with pytest.raises(UserError) as caught:
    EventEnvironment(Wordy()).reset()
  assert len(str(caught.value)) < 400
  assert len(caught.value.trace) > 4_000


@pytest.mark.parametrize(
  ("check", "after", "refused"),
  [
    ("first", FIRST_STEPS, True),
    ("first", FIRST_STEPS + 1, False),
    ("always", 40, True),
    ("never", 1, False),
  ],
)
def test_the_config_says_which_observations_are_checked(check, after, refused):
  env = make_faulty(check=check, in_step="far", after=after)
  if not refused:
    play(env)
    return
  play(env, after + (after - 1) // 10 - 1)  # Steps that reset count as well.
  with pytest.raises(UserError, match="outside its observation_space"):
    env.step(0)


@pytest.mark.parametrize("fault", ["number", "text", "no_info"])
def test_without_the_check_flags_and_infos_pass_as_they_are(fault):
  play(make_faulty(check="never", in_step=fault))


@pytest.mark.parametrize("fault", ["words", "ragged"])
def test_an_observation_that_is_no_array_is_refused_even_without_the_check(fault):
  with pytest.raises(UserError, match=r"returned an observation \(.*\) that is no array of numbers"):
    play(make_faulty(check="never", in_step=fault))


class Says(faulty_world.Faulty):
  """Returns one observation."""

  def __init__(self, space, observation):
    super().__init__()
    self.observation_space, self.observation = space, observation

  def reset(self, *, seed=None, options=None):
    return self.observation, {}


BOX = spaces.Box(-1, 1, (2,), np.float32)
PICTURE = spaces.Box(0, 255, (2, 2), np.uint8)


@pytest.mark.parametrize(
  ("space", "observation"),
  [
    (BOX, np.array([1, -1], np.float64)),
    (BOX, [0, 1]),
    (BOX, np.array([1.000001, -1.000001], np.float32)),
    (spaces.Box(0, np.inf, (1,), np.float32), [1e30]),
    (spaces.Box(-np.inf, np.inf, (1,), np.float64), [-1e30]),
    (spaces.Box(np.float32(-3.4e38), np.float32(3.4e38), (1,), np.float32), [3.3e38]),
    (PICTURE, np.full((2, 2), 255, np.int64)),
    (PICTURE, np.ones((2, 2))),
    (spaces.Discrete(3, start=1), 3),
    (spaces.Discrete(3), np.int64(0)),
    (spaces.MultiBinary(2), [True, False]),
    (spaces.MultiDiscrete([2, 3]), np.array([1, 2])),
  ],
  ids=str,
)
def test_what_worlds_usually_return_is_taken(space, observation):
  EventEnvironment(Says(space, observation)).reset()


@pytest.mark.parametrize(
  ("space", "observation", "fault"),
  [
    (BOX, np.array([1.01, 0], np.float32), r"it has 1\.0\d+ at \[0\], where the space has from -1\.0 to 1\.0"),
    (BOX, [np.inf, 0], r"it has inf at \[0\], which is not finite"),
    (BOX, 0.5, r"it has the shape \(\), and the space \(2,\)"),
    (PICTURE, np.full((2, 2), 256), r"it has 256 at \[0, 0\], where the space has a whole number from 0 to 255"),
    (PICTURE, np.full((2, 2), 0.5), r"it has 0\.5 at \[0, 0\], where the space has a whole number from 0 to 255"),
    (spaces.Discrete(3, start=1), 0, r"it has 0, where the space has a whole number from 1 to 3"),
    (spaces.Discrete(3), None, r"None \(NoneType\) is no array of numbers"),
    (spaces.MultiDiscrete([2, 3]), [1, 3], r"it has 3 at \[1\], where the space has a whole number from 0 to 2"),
    (BOX, {"x": 1}, r"\{'x': 1\} \(dict\) is no array of numbers"),
  ],
  ids=str,
)
def test_what_the_space_does_not_hold_is_refused(space, observation, fault):
  with pytest.raises(UserError, match=fault):
    EventEnvironment(Says(space, observation)).reset()


@pytest.mark.parametrize(
  ("space", "action", "shown"),
  [
    (spaces.Discrete(2), 2, "2"),
    (spaces.Discrete(2), -1, "-1"),
    (spaces.Box(-2, 2, (1,), np.float32), np.array([np.nan], np.float32), r"\[nan\]"),
  ],
)
def test_an_action_outside_its_space_is_refused_before_the_world_gets_it(space, action, shown):
  world = faulty_world.Faulty()
  world.action_space = space
  env = EventEnvironment(world)
  env.reset()
  with pytest.raises(UserError, match=rf"The action {shown} is outside the action_space of the environment 'Faulty'"):
    env.step(action)
  assert world.steps == 0


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_passes_all_checks(preset):
  config = override(load_config(preset), {"environment.check": "always"})
  env = make_event_environment(config, seed=3, shaped=True)
  rng = np.random.default_rng(3)
  spec = env.action_spec()
  discrete = hasattr(spec, "num_values")
  env.reset()
  for _ in range(300):
    env.step(rng.integers(spec.num_values) if discrete else rng.uniform(-1, 1, spec.shape))
  env.close()

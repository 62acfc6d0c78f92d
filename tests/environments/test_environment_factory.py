"""Environments by name."""

import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest

from configs import EnvironmentConfig, EventSpec, ReplayConfig, RunConfig, TableSpec, UserError, load_config
from environments import ThreeRooms, make, make_event_environment

MODULE = """
  import gymnasium
  from configs import UserError
  from environments import ThreeRooms

  def rooms(size=5, render_mode=None):
    return ThreeRooms(size, render_mode=render_mode)

  def blind(size=5):
    return ThreeRooms(size)

  def open_ended(**arguments):
    return ThreeRooms(**arguments)

  def not_an_env():
    return "a world"

  def raises():
    raise RuntimeError("no console answers.")

  def refuses():
    raise UserError("Plug the console in.")

  class Refusing(gymnasium.Env):
    def __init__(self, **arguments):
      raise UserError("Plug the console in.")
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
  (tmp_path / "user_worlds.py").write_text(textwrap.dedent(MODULE))
  monkeypatch.syspath_prepend(str(tmp_path))


def test_a_built_in_world_is_made_with_its_arguments():
  env = make(EnvironmentConfig("three_rooms", {"room_size": 3, "gaps": [1, 1]}))
  assert isinstance(env, ThreeRooms)
  assert (env.room_size, env.gap_rows, env.render_mode) == (3, (1, 1), None)


def test_a_gymnasium_id_is_made_with_its_arguments():
  env = make(EnvironmentConfig("CartPole-v1", {"sutton_barto_reward": True}))
  assert env.spec is not None
  assert env.spec.id == "CartPole-v1"
  assert env.spec.kwargs["sutton_barto_reward"] is True


def test_a_function_of_the_user_is_called_with_its_arguments(user_module):
  env = make(EnvironmentConfig("user_worlds:rooms", {"size": 3}))
  assert isinstance(env, ThreeRooms)
  assert env.room_size == 3


@pytest.mark.parametrize("name", ["three_rooms", "CartPole-v1", "user_worlds:rooms"])
def test_an_environment_that_will_be_rendered_gets_the_render_mode(user_module, name):
  if name == "CartPole-v1":
    pytest.importorskip("pygame")
  assert make(EnvironmentConfig(name), render=True).render_mode == "rgb_array"


def test_a_function_without_a_render_mode_is_not_given_one(user_module):
  assert make(EnvironmentConfig("user_worlds:blind"), render=True).render_mode is None


def test_any_keyword_reaches_a_function_that_takes_any(user_module):
  env = make(EnvironmentConfig("user_worlds:open_ended", {"room_size": 2}))
  assert isinstance(env, ThreeRooms)
  assert env.room_size == 2


@pytest.mark.parametrize(
  ("name", "arguments", "sentence"),
  [
    ("CartPol-v1", {}, r"There is no environment 'CartPol-v1': did you mean 'CartPole-v1'"),
    ("CartPole-v99", {}, r"There is no environment 'CartPole-v99': did you mean .*'CartPole-v1'"),
    ("three_room", {}, r"There is no environment 'three_room': did you mean 'three_rooms'"),
    ("qqqqqqqq", {}, r"There is no environment 'qqqqqqqq': check the id, or write 'module:function'\."),
    ("not_there:Env-v1", {}, r"The environment 'not_there:Env-v1' needs the module 'not_there': install its package"),
    ("not_there:make", {}, r"The environment, 'not_there:make', cannot be loaded: there is no module 'not_there'"),
    ("CartPole-v1", {"bad": 1}, r"'CartPole-v1' cannot be made with the arguments {'bad': 1} \(TypeError: .*check"),
    ("three_rooms", {"romo_size": 1}, r"'three_rooms' has no argument 'romo_size': did you mean 'room_size'\?"),
    (
      "three_rooms",
      {"q": 1},
      r"'three_rooms' has no argument 'q': it takes room_size, gaps, time_limit, render_mode\.",
    ),
    ("three_rooms", {"room_size": 0}, r"^three_rooms has the room_size 0"),
    (
      "user_worlds:not_an_env",
      {},
      r"'user_worlds:not_an_env' is a str: it must be a gymnasium\.Env or",
    ),
    ("user_worlds:not_an_env", {"q": 1}, r"has no argument 'q': it takes none\."),
    ("user_worlds:raises", {}, r"cannot be made with the arguments {} \(RuntimeError: no console answers\): check"),
    ("user_worlds:refuses", {}, r"^Plug the console in\.$"),
    ("Refusing-v0", {}, r"^Plug the console in\.$"),
  ],
)
def test_an_environment_that_cannot_be_made_is_refused_with_what_to_do(user_module, name, arguments, sentence):
  if name == "Refusing-v0":
    gymnasium.register(name, "user_worlds:Refusing")
  try:
    with pytest.raises(UserError, match=sentence):
      make(EnvironmentConfig(name, arguments))
  finally:
    gymnasium.registry.pop("Refusing-v0", None)


def test_a_callable_without_a_signature_is_called():
  with pytest.raises(UserError, match=r"'builtins:dict' is a dict"):
    make(EnvironmentConfig("builtins:dict", {"a": 1}))


def test_the_event_environment_of_a_run_has_its_events():
  env = make_event_environment(load_config("three_rooms"), seed=1)
  assert isinstance(env.gym_env, ThreeRooms)
  masks = [env.reset().events, *(env.step(np.int32(action)).events for action in env.gym_env.shortest_path())]
  assert [mask for mask in masks if mask] == [0b01, 0b01, 0b10]


def test_the_event_environment_can_be_rendered():
  env = make_event_environment(load_config("three_rooms"), render=True)
  env.reset()
  assert env.render().shape == (224, 608, 3)


def test_an_event_that_does_not_fit_the_world_is_named_at_its_first_step():
  config = RunConfig(
    environment=EnvironmentConfig("CartPole-v1"),
    events=(EventSpec("at_gap", "environments.three_rooms:at_gap", 1),),
    replay=ReplayConfig(default=TableSpec("default", 0.5, min_size=1), tables=(TableSpec("at_gap", 0.5),)),
  )
  env = make_event_environment(config, seed=1)
  env.reset()
  with pytest.raises(UserError, match=r"The condition of event 'at_gap' raised KeyError \('at_gap'\)"):
    env.step(0)


def test_environments_need_neither_tensorflow_nor_reverb():
  code = "import sys, environments; print({'tensorflow', 'reverb', 'sonnet', 'jax'} & set(sys.modules))"
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
  assert result.stdout.strip() == "set()"

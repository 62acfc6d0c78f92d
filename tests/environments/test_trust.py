"""What a role may import because a config from the network names it."""

import dataclasses
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from configs import PRESETS, EnvironmentConfig, EventSpec, RunConfig, TableSpec, UserError, load_config
from environments.trust import Trust, packages_of

_MARK = "imported"
_WORLDS = f"""
import pathlib
from os import mkdir
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

pathlib.Path(__file__).with_name({_MARK!r}).touch()

class Own(gymnasium.Env):
  pass

def at_goal(step):
  return True
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
  """A folder of --pythonpath with a module `trusted_worlds`, which leaves a file when it is imported."""
  (tmp_path / "trusted_worlds.py").write_text(_WORLDS)
  monkeypatch.syspath_prepend(str(tmp_path))
  monkeypatch.delitem(sys.modules, "trusted_worlds", raising=False)
  return str(tmp_path)


def _config(name: str = "three_rooms", condition: str = "", potential: str = "", **arguments: Any) -> RunConfig:
  config = load_config("three_rooms")
  environment = EnvironmentConfig(name, potential=potential, potential_arguments=arguments if potential else {})
  if condition:
    event = EventSpec("seen", condition, history=1, arguments=arguments)
    replay = dataclasses.replace(
      config.replay,
      default=dataclasses.replace(config.replay.default, probability=0.5),
      tables=(TableSpec("seen", probability=0.5),),
    )
    evaluator = dataclasses.replace(config.evaluator, solved_event="")
    config = dataclasses.replace(config, events=(event,), replay=replay, evaluator=evaluator)
  return dataclasses.replace(config, environment=environment)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_trusted(name: str) -> None:
  config = load_config(name)
  Trust().check(config)
  assert packages_of(config) == []


@pytest.mark.parametrize(
  ("config", "named", "package"),
  [
    (_config("os:mkdir"), "the environment 'os:mkdir'", "os"),
    (_config("highway_env:highway-v0"), "the environment 'highway_env:highway-v0'", "highway_env"),
    (_config("GymV26Environment-v0"), "the environment 'GymV26Environment-v0'", "gym"),
    (_config("environments.events:load_reference"), "the environment 'environments.events:", "environments"),
    (_config("environments.conditions:make_condition"), "the environment 'environments.conditions:", "environments"),
    (_config(potential="launch.train:train"), "environment.potential 'launch.train:train'", "launch"),
    (_config(condition="subprocess:run"), "the condition of event 'seen' 'subprocess:run'", "subprocess"),
    (
      _config(condition="environments.conditions:And", conditions=["environments.three_rooms:done", "os:mkdir"]),
      "a part of the condition of event 'seen' 'os:mkdir'",
      "os",
    ),
    (
      _config(
        condition="environments.conditions:Not",
        condition_={"condition": "environments.conditions:Not", "arguments": {"condition": "os:mkdir"}},
      ),
      "a part of the condition of event 'seen' 'os:mkdir'",
      "os",
    ),
  ],
)
def test_other_code_is_refused_with_the_flag_that_allows_it(config: RunConfig, named: str, package: str) -> None:
  with pytest.raises(UserError) as refused:
    Trust().check(config)
  assert named in str(refused.value)
  assert f"--allow_module={package}." in str(refused.value)


@pytest.mark.parametrize("part", ["", "actor", "evaluator"])
@pytest.mark.parametrize("text", ["os:mkdir", "sys:Env-v1", "os.path:join"])
def test_code_in_the_arguments_of_any_roles_environment_is_refused(part: str, text: str) -> None:
  arguments = {"deeply": [{"nested": text}], "map": "level:easy", "note": "see: os"}
  config = _config("CartPole-v1")
  if part:
    config = config.with_arguments("actor" if part == "actor" else "evaluator", arguments)
  else:
    config = dataclasses.replace(config, environment=dataclasses.replace(config.environment, arguments=arguments))
  module = text.partition(":")[0]
  with pytest.raises(UserError, match=rf"an argument of the environment '{text}', and the module {module} may not"):
    Trust().check(config)
  Trust(packages=(module.partition(".")[0],)).check(config)
  assert packages_of(config) == [module.partition(".")[0]]


def test_a_trusted_function_does_with_its_arguments_what_it_wants(folder: str) -> None:
  Trust(folders=(folder,)).check(_config("trusted_worlds:Own").with_arguments("actor", {"world": "os:mkdir"}))


def test_a_module_that_is_not_allowed_is_not_imported(folder: str) -> None:
  with pytest.raises(UserError, match="--allow_module=trusted_worlds"):
    Trust().check(_config("trusted_worlds:Own"))
  assert not (pathlib.Path(folder) / _MARK).exists()


@pytest.mark.parametrize("trust", ["folder", "package"])
def test_a_folder_or_a_package_allows_what_it_defines_and_no_more(folder: str, trust: str) -> None:
  own = Trust(folders=(folder,)) if trust == "folder" else Trust(packages=("trusted_worlds",))
  for config in (_config("trusted_worlds:Own"), _config(condition="trusted_worlds:at_goal")):
    own.check(config)
  for foreign, module in (
    ("trusted_worlds:mkdir", "posix"),
    ("trusted_worlds:pathlib.os.mkdir", "posix"),
    ("trusted_worlds:CartPoleEnv", "gymnasium"),
  ):
    with pytest.raises(UserError, match=f"--allow_module={module}"):
      own.check(_config(foreign))
  assert packages_of(_config("trusted_worlds:CartPoleEnv")) == ["gymnasium", "trusted_worlds"]


def test_a_folder_does_not_make_the_standard_library_or_slipstream_its_own(tmp_path: pathlib.Path) -> None:
  for name in ("os", "environments"):
    (tmp_path / f"{name}.py").touch()
  trust = Trust(folders=(str(tmp_path),))
  for name in ("os:mkdir", "environments.events:load_reference"):
    with pytest.raises(UserError, match="--allow_module"):
      trust.check(_config(name))


def test_an_id_that_gymnasium_knows_needs_no_flag_and_an_error_in_a_trusted_module_is_one_sentence(
  folder: str,
) -> None:
  Trust().check(_config("CartPole-v1"))
  with pytest.raises(UserError, match="has no 'Missing'"):
    Trust(folders=(folder,)).check(_config("trusted_worlds:Missing"))


def test_checking_a_preset_imports_neither_tensorflow_nor_reverb() -> None:
  program = (
    "import sys; from configs import load_config; from environments.trust import Trust; "
    "Trust().check(load_config('three_rooms')); sys.exit(bool({'tensorflow', 'reverb'} & set(sys.modules)))"
  )
  assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_consoles_client_is_trusted_and_what_else_is_in_its_room_is_not() -> None:
  def config(name: str) -> RunConfig:
    return RunConfig(environment=EnvironmentConfig(name, {"address": "localhost:1"}))

  Trust().check(config("consoles.client:Console"))
  assert packages_of(config("consoles.client:Console")) == []
  for name in ("consoles.server:ConsoleServer", "consoles.client:np.load"):
    with pytest.raises(UserError):
      Trust().check(config(name))

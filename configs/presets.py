"""Presets by name, and configs from files."""

import difflib
import pathlib
import runpy
from collections.abc import Callable

from configs import (
  classic_control,
  lunar_lander,
  mujoco,
  nmer,
  obstacle_course,
  randomised_skills,
  three_rooms,
  two_rooms,
)
from configs.errors import UserError
from configs.run import RunConfig
from configs.serialization import from_json

PRESETS: dict[str, Callable[[], RunConfig]] = {
  "three_rooms": three_rooms.get_config,
  "two_rooms": two_rooms.get_config,
  "obstacle_course": obstacle_course.get_config,
  "randomised_skills": randomised_skills.get_config,
  "pendulum_sac": classic_control.get_pendulum_config,
  "pendulum_qr_sac": classic_control.get_pendulum_qr_sac_config,
  "pendulum_td3": classic_control.get_pendulum_td3_config,
  "cartpole": classic_control.get_cartpole_config,
  "acrobot": classic_control.get_acrobot_config,
  "lunar_lander": lunar_lander.get_discrete_config,
  "lunar_lander_continuous": lunar_lander.get_config,
  "lunar_lander_qr_sac": lunar_lander.get_qr_sac_config,
  **{world.lower(): mujoco.preset(world) for world in mujoco.EVENTS},
  "halfcheetah_large": mujoco.get_large_config,
  **{
    f"nmer_{algorithm}_{world.lower()}": nmer.preset(algorithm, world)
    for algorithm, worlds in nmer.TUNED.items()
    for world in worlds
  },
}


def load_config(name: str) -> RunConfig:
  """The config of a preset's name, of a Python file with a `get_config()`, or of a JSON file.

  Raises:
    UserError: there is no such preset or file, or the file gives no config.
  """
  if name in PRESETS:
    return PRESETS[name]()
  path = pathlib.Path(name)
  if path.suffix not in (".py", ".json"):
    near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"presets: {', '.join(sorted(PRESETS))}."
    raise UserError(f"There is no preset {name!r}: {hint} (A file of your own ends in .py or .json.)")
  if not path.is_file():
    raise UserError(
      f"There is no config file {name!r}: check the path, or name a preset ({', '.join(sorted(PRESETS))})."
    )
  if path.suffix == ".py":
    return _from_python(path)
  try:
    return from_json(path.read_text(encoding="utf-8"))
  except UnicodeDecodeError:
    raise UserError(f"The config file {path} is not a text in UTF-8: save it as one.") from None


def _from_python(path: pathlib.Path) -> RunConfig:
  try:
    get_config = runpy.run_path(str(path)).get("get_config")
    if not callable(get_config):
      raise UserError(
        f"The config file {path} has no function get_config(): add one that returns a slipstream.RunConfig."
      )
    config = get_config()
  except UserError:
    raise
  except (
    Exception,
    SystemExit,
  ) as error:  # The file is the user's: whatever it raises is theirs to read, in one sentence.
    raise UserError(f"The config file {path} cannot be run ({type(error).__name__}: {error}): mend it.") from error
  if not isinstance(config, RunConfig):
    raise UserError(
      f"get_config() of {path} returned a {type(config).__name__}: it must return a slipstream.RunConfig."
    )
  return config

"""Loading configs by the name of a preset or a file."""

import difflib
import pathlib
import runpy

from configs.errors import UserError
from configs.presets import PRESETS
from configs.run import RunConfig
from configs.serialization import from_json


def load_config(name: str) -> RunConfig:
  """The config of a preset, of a Python file with a `get_config()`, or of a JSON file.

  Raises:
    UserError: there is no such preset or file, or the file gives no config.
  """
  if name in PRESETS:
    return PRESETS[name]()
  path = pathlib.Path(name)
  if path.suffix not in (".py", ".json"):
    if path.is_file():
      raise UserError(f"The config file {path} is neither Python nor JSON by its name: let it end in .py or .json.")
    near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
    hint = (
      f"did you mean {near[0]!r}?" if near else "see 'slipstream presets', or name a file that ends in .py or .json."
    )
    raise UserError(f"There is no preset {name!r}: {hint}")
  if path.is_dir():
    raise UserError(f"The config file {path} is a folder: name a file in it, or a preset (see 'slipstream presets').")
  if not path.is_file():
    raise UserError(f"There is no config file {path}: check the path, or name a preset (see 'slipstream presets').")
  return _from_python(path) if path.suffix == ".py" else read_config_file(path)


def read_config_file(path: pathlib.Path) -> RunConfig:
  """The config in a JSON file.

  Raises:
    UserError: the file cannot be read, or is not a config.
  """
  try:
    return from_json(path.read_text(encoding="utf-8"), f"The config file {path}")
  except OSError as error:
    raise UserError(
      f"The config file {path} cannot be read ({error.strerror}): check the path and who may read it."
    ) from None
  except UnicodeDecodeError:
    raise UserError(f"The config file {path} is not UTF-8 text: save it as UTF-8.") from None


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
  except (Exception, SystemExit) as error:  # The user's file can raise anything.
    raise UserError(f"The config file {path} cannot be run ({type(error).__name__}: {error}): fix it.") from error
  if not isinstance(config, RunConfig):
    raise UserError(f"get_config() of {path} returned {config!r}: it must return a slipstream.RunConfig.")
  return config

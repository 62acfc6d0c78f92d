"""Where the files for containers lie, and how compose reads its own."""

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).parents[2]
DOCKER = ROOT / "docker"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def read_compose(name, **variables):
  """A compose file of docker/ as data, with its variables filled in; one that must be given stands for itself."""

  def value(match):
    variable, kind, text = match.groups()
    return variables.get(variable, text if kind == "-" else variable)

  return yaml.safe_load(_VARIABLE.sub(value, (DOCKER / name).read_text()))


def variables_of(name):
  """The environment variables that a compose file reads."""
  return {variable for variable, _, _ in _VARIABLE.findall((DOCKER / name).read_text())}

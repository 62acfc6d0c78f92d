"""Which code a config that came over the network may name.

Whoever can write to a replay server writes its run's config, and a config names code: its environment, its conditions, its
potential. A role that joins a server therefore imports only what its own command line allows.
"""

import dataclasses
import importlib.machinery
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from configs import RunConfig, UserError
from configs.specs import is_reference
from environments.events import load_reference
from environments.factory import BUILT_IN

# Modules of worlds, conditions and potentials. What they define imports nothing that a config names, but for the conditions whose
# parts are references too; those are found in their arguments.
_OWN = frozenset(
  f"environments.{name}"
  for name in (
    "conditions",
    "lunar_lander",
    "obstacle_course",
    "potentials",
    "randomised_skills",
    "three_rooms",
    "two_rooms",
  )
) | {"consoles.client"}  # Which reaches a console over the network, and imports nothing that this says.
# Environments of gymnasium that make one of the older package gym, by an id in their arguments.
_COMPATIBILITY = ("GymV21Environment", "GymV26Environment")
# A text that may name code: "module:function", or "module:Env-v1", of which gymnasium imports the module.
_CODE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w./-]*")


class _Named(NamedTuple):
  what: str  # Its role: "the environment".
  name: str  # As the config has it.
  module: str
  is_argument: bool = False  # Of an environment: only that knows what it does with it.


@dataclasses.dataclass(frozen=True)
class Trust:
  """What a process may import because a config names it.

  Always allowed are the built-in worlds, conditions and potentials, the consoles' client, and environments that gymnasium knows
  by their id alone.

  Attributes:
    folders: whose modules may be imported; absolute paths.
    packages: top-level packages that may be imported.
  """

  folders: Sequence[str] = ()
  packages: Sequence[str] = ()

  def check(self, config: RunConfig) -> None:
    """Checks, before anything of it is imported, that all code which a config names is allowed.

    A function or a class must also come from an allowed module: "my_worlds:os.mkdir" does not come from my_worlds.

    Args:
      config: of the run, from its server.

    Raises:
      UserError: the config names other code, or what it names cannot be loaded.
    """
    named = list(_named_by(config))
    for one in named:
      if not self._allows(one.module):
        raise _refusal(one, one.module)
    for one in named:
      if is_reference(one.name) and not one.is_argument:  # Not an id of gymnasium, whose module has no name to look at.
        origin = _origin_of(_load(one), one)
        if not self._allows(origin):
          raise _refusal(one, origin)

  def _allows(self, module: str) -> bool:
    top = module.partition(".")[0]
    return module in _OWN or top in self.packages or _is_in(self.folders, top)


def packages_of(config: RunConfig) -> list[str]:
  """The packages that a `Trust` needs for a config of one's own; sorted.

  Raises:
    UserError: what the config names cannot be loaded.
  """
  modules = set()
  for one in _named_by(config):
    modules.add(one.module)
    if is_reference(one.name) and not one.is_argument:
      modules.add(_origin_of(_load(one), one))
  return sorted({module.partition(".")[0] for module in modules - _OWN})


def _load(named: _Named) -> Any:
  return load_reference(named.name, f"{named.what[0].upper()}{named.what[1:]}")


def _named_by(config: RunConfig) -> Iterator[_Named]:
  environment = config.environment
  name = environment.name
  if name not in BUILT_IN:
    module, colon, _ = name.partition(":")
    if colon:
      yield _Named("the environment", name, module)
    elif name.startswith(_COMPATIBILITY):
      yield _Named("the environment", name, "gym")
  if not is_reference(name):  # What a function of the user's does with its arguments is its own business.
    yield from _named_by_arguments(config)
  if environment.potential:
    yield from _with_parts("environment.potential", environment.potential, environment.potential_arguments)
  for event in config.events:
    yield from _with_parts(f"the condition of event {event.name!r}", event.condition, event.arguments)


def _named_by_arguments(config: RunConfig) -> Iterator[_Named]:
  """The code in the arguments of the environment, whichever role it is made for; a text that names no module is just a text."""
  environments = (config.environment, config.of_workers.environment, config.of_evaluator.environment)
  texts = {text for environment in environments for text in _texts(environment.arguments)}
  for text in sorted(texts):
    match = _CODE.fullmatch(text)
    if match and _exists(match[1].partition(".")[0]):
      yield _Named("an argument of the environment", text, match[1], is_argument=True)


def _exists(top: str) -> bool:
  """Whether there is a top-level module of this name; imports nothing."""
  return top in sys.modules or importlib.util.find_spec(top) is not None


def _with_parts(what: str, reference: str, arguments: Mapping[str, Any]) -> Iterator[_Named]:
  module = reference.partition(":")[0]
  yield _Named(what, reference, module)
  if module in _OWN:
    for text in _texts(arguments):
      if is_reference(text):
        yield _Named(f"a part of {what}", text, text.partition(":")[0])


def _texts(value: Any) -> Iterator[str]:
  """All strings in a JSON value."""
  if isinstance(value, str):
    yield value
  elif isinstance(value, Mapping):
    for one in value.values():
      yield from _texts(one)
  elif isinstance(value, (list, tuple)):
    for one in value:
      yield from _texts(one)


def _is_in(folders: Sequence[str], top: str) -> bool:
  """Whether importing the top-level module `top` takes it from one of `folders`; imports nothing."""
  if top in sys.stdlib_module_names or top == "environments":
    return False
  return importlib.machinery.PathFinder.find_spec(top, list(folders)) is not None


def _origin_of(target: Any, named: _Named) -> str:
  """The module that defines what a reference names; of an object without dots in its name, the module that is named."""
  if inspect.isclass(target) or inspect.isroutine(target) or "." in named.name.partition(":")[2]:
    return getattr(target, "__module__", None) or type(target).__module__
  return named.module


def _refusal(named: _Named, module: str) -> UserError:
  top = module.partition(".")[0]
  return UserError(
    f"The run's config names {named.what} {named.name!r}, and the module {module} may not be imported for it: if you trust "
    f"whoever serves the run, give its folder with --pythonpath, or, if it is installed, --allow_module={top}."
  )

"""The worlds that a console has made: warmed up before anyone plays, and kept for the next worker."""

import dataclasses
import importlib.metadata
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from configs.errors import UserError, name_hint
from consoles import console_pb2
from consoles.codec import PROTOCOL, decode_value, encode_space
from consoles.options import ConsoleOptions
from consoles.worlds import World, make_world
from environments.calls import FAILURES, describe, trace_of

_P = ParamSpec("_P")
_T = TypeVar("_T")

_DESCRIPTIONS = 64


class WorldFailed(Exception):
  """The world raised something; the message says what.

  Attributes:
    trace: its traceback, as text that ends with a line break.
  """

  def __init__(self, clause: str, trace: str):
    super().__init__(clause)
    self.trace = trace


@dataclasses.dataclass(frozen=True)
class Setup:
  """What to play.

  Attributes:
    scenario: empty for the first.
    cars: 0 for the scenario's own number.
    options: as JSON, sorted.
  """

  scenario: str = ""
  cars: int = 0
  options: str = "{}"

  @classmethod
  def of(cls, message: console_pb2.Setup) -> "Setup":
    """What a message says."""
    options = {name: decode_value(value) for name, value in message.options.items()}
    return cls(message.scenario, message.cars, json.dumps(options, sort_keys=True))


class Stage:
  """Makes worlds and keeps the one that nobody plays in. Threads share it.

  Attributes:
    control_seconds: from one tick to the next.
  """

  def __init__(self, options: ConsoleOptions):
    """Makes the world of the console's own options, and compiles what it compiles.

    Raises:
      UserError: it cannot be made.
      WorldFailed: it cannot be played.
    """
    self._options = options
    self._lock = threading.Lock()
    self._spare: tuple[Setup, World] | None = None
    self._descriptions: dict[Setup, console_pb2.Description] = {}
    setup = Setup()
    world = self._make(setup)
    self.control_seconds = 1 / (options.rate or world.rate)
    self.give_back(setup, world)

  def describe(self, setup: Setup) -> console_pb2.Description:
    """What a setup is.

    Raises:
      UserError: the console lacks its scenario or an option.
      WorldFailed: its world cannot be played.
    """
    with self._lock:
      known = self._descriptions.get(setup)
    if known is None:
      self.give_back(setup, self.take(setup))
      with self._lock:
        known = self._descriptions[setup]
    return known

  def take(self, setup: Setup) -> World:
    """A world of this setup, which `give_back` must get; see `describe` for what is raised."""
    with self._lock:
      if self._spare is not None and self._spare[0] == setup:
        world = self._spare[1]
        self._spare = None
        return world
    return self._make(setup)

  def give_back(self, setup: Setup, world: World, well: bool = True) -> None:
    """Keeps a world for the next one who wants such; closes another that was kept, or this one if it has failed."""
    closed: World | None = world
    with self._lock:
      if well:
        closed = None if self._spare is None else self._spare[1]
        self._spare = (setup, world)
        if setup not in self._descriptions:
          while len(self._descriptions) >= _DESCRIPTIONS:
            del self._descriptions[next(iter(self._descriptions))]
          self._descriptions[setup] = self._description(world)
    if closed is not None:
      self._close(closed)

  def close(self) -> None:
    """Closes the world that is kept."""
    with self._lock:
      spare, self._spare = self._spare, None
    if spare is not None:
      self._close(spare[1])

  def call(self, method: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Calls a method of a world.

    Raises:
      UserError: the world refuses the arguments.
      WorldFailed: it raised something else.
    """
    try:
      return method(*arguments, **named)
    except UserError:
      raise
    except FAILURES as error:
      raise WorldFailed(f"the world {self._options.world!r} raised {describe(error)}", trace_of(error)) from error

  def _make(self, setup: Setup) -> World:
    name = self._options.world
    if setup.scenario not in ("", name):
      raise UserError(
        f"The console of {name!r} has no scenario {setup.scenario!r}: {name_hint(setup.scenario, [name])}"
      )
    arguments: Mapping[str, Any] = {**self._options.arguments(), **json.loads(setup.options)}
    world = make_world(name, arguments, setup.cars)
    self.call(_warm_up, world)
    return world

  def _close(self, world: World) -> None:
    try:
      self.call(world.close)
    except (UserError, WorldFailed) as error:  # A world that cannot be closed is not played in any more.
      print(error, file=sys.stderr, flush=True)

  def _description(self, world: World) -> console_pb2.Description:
    options = self._options
    return console_pb2.Description(
      protocol=PROTOCOL,
      world=options.world,
      version=_version(),
      scenarios=[options.world],
      cars=world.cars,
      features=encode_space(world.features),
      actions=encode_space(world.actions),
      control_seconds=self.control_seconds,
      pace=console_pb2.REAL if options.pace == "real" else console_pb2.FAST,
      lease_seconds=options.lease_seconds,
    )


def _warm_up(world: World) -> None:
  """Two episodes' beginnings and a step, so that nothing is compiled while somebody plays."""
  everyone = np.ones(world.cars, bool)
  world.actions.seed(0)
  for _ in range(2):
    world.launch(everyone, [0])
    world.step(np.stack([np.asarray(world.actions.sample()) for _ in range(world.cars)]), ~everyone)


def _version() -> str:
  try:
    return f"slipstream {importlib.metadata.version('slipstream')}"
  except importlib.metadata.PackageNotFoundError:  # It is run from a folder.
    return "slipstream"

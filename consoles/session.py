"""One stream of one worker: launches, and ticks at either pace."""

import queue
import time
from collections.abc import Generator, Iterable
from typing import Any

import grpc
import numpy as np

from consoles import console_pb2
from consoles.clock import Clock
from consoles.codec import Array, Mask, decode_array, encode_array, encode_columns
from consoles.stage import Setup, Stage
from consoles.worlds import Tick, World

_NOTHING = object()


class Refusal(Exception):
  """A request is refused, which ends the stream.

  Attributes:
    code: gRPC's.
  """

  def __init__(self, code: grpc.StatusCode, sentence: str):
    super().__init__(sentence)
    self.code = code


class Inbox:
  """The requests of a stream, which a thread of their own reads, so that they can be waited for with a limit."""

  def __init__(self, requests: Iterable[console_pb2.Request]):
    """Takes the stream's requests."""
    self._requests = requests
    self._heard = time.monotonic()
    self._queue: queue.SimpleQueue[console_pb2.Request | None] = queue.SimpleQueue()

  def read(self) -> None:
    """Reads until the stream ends; for the thread."""
    try:
      for request in self._requests:
        self._heard = time.monotonic()
        if request.WhichOneof("kind") != "keep_alive":
          self._queue.put(request)
    except grpc.RpcError:
      pass  # The worker, or the network, is gone.
    finally:
      self._queue.put(None)

  def silent_seconds(self) -> float:
    """Since the worker was heard."""
    return time.monotonic() - self._heard

  def take(self, seconds: float) -> console_pb2.Request | None:
    """The next request, or None if the stream has ended.

    Raises:
      queue.Empty: none came in time.
    """
    return self._queue.get(timeout=max(seconds, 0.0))


class Session:
  """Plays with one worker, who has the lease.

  Attributes:
    tick: ticks so far.
    missed: ticks without an action of their own, also those that the world waited out for a launch.
    clock: when ticks are due at the real pace.
  """

  def __init__(self, stage: Stage, real: bool, lease_seconds: float):
    """Takes the stage, the pace, and the silence that ends the lease."""
    self._stage = stage
    self._real = real
    self._lease_seconds = lease_seconds
    self.tick = 0
    self.missed = 0
    self.clock = Clock(stage.control_seconds)
    self._setup: Setup | None = None
    self._world: World | None = None
    self._resting: Mask = np.ones(0, bool)
    self._actions: Array = np.zeros(0)
    self._waiting = False  # For the tick of an action.
    self._unsaid: Tick | None = None  # What happened since the last reply.

  def run(self, inbox: Inbox) -> Generator[console_pb2.Reply, None, bool]:
    """The replies. The generator returns whether the worker asked to close; False if its stream ended without a word.

    Raises:
      Refusal: a request is refused, or none came for too long.
      UserError: the world or its setup is at fault.
    """
    while True:
      request = self._next(inbox)
      if request is None:
        return False
      if request is not _NOTHING:
        kind = request.WhichOneof("kind")
        if kind == "close":
          return True
        if kind == "launch":
          yield console_pb2.Reply(launched=self._launch(request.launch))
        elif kind == "step":
          self._accept(request.step)
          if not self._real:
            self._advance()
          if not self._real or not self._goes_on():
            yield self._said()
        else:
          raise _wrong_time(f"{kind or 'an empty request'} came where launch, step or close belongs")
      if time.monotonic() >= self.clock.due and self._tick_at_real_pace():
        yield self._said()

  def _next(self, inbox: Inbox) -> Any:
    """The next request, None if the stream has ended, or `_NOTHING` if a tick is due first."""
    silence = self._lease_seconds - inbox.silent_seconds()
    try:
      return inbox.take(min(silence, self.clock.due - time.monotonic()))
    except queue.Empty:
      if inbox.silent_seconds() < self._lease_seconds:
        return _NOTHING
    raise Refusal(
      grpc.StatusCode.DEADLINE_EXCEEDED,
      f"nothing was heard from the worker for {self._lease_seconds:g} s, which ends its lease",
    )

  def finish(self, well: bool) -> None:
    """Gives the world back to the stage, or closes it if it has failed."""
    if self._setup is not None and self._world is not None:
      self._stage.give_back(self._setup, self._world, well)
    self._world = None

  def _launch(self, launch: console_pb2.Launch) -> console_pb2.Launched:
    if self._waiting:
      raise _wrong_time("a launch came while a step waits for its tick")
    everyone = not launch.cars
    if launch.HasField("setup"):
      if not everyone:
        raise _invalid("a launch with a setup begins all cars anew: leave its cars out")
      self._change(Setup.of(launch.setup))
    if self._world is None:
      raise _wrong_time("the first launch must say what to play")
    chosen = np.ones(self._world.cars, bool) if everyone else np.array(launch.cars, bool)
    if len(chosen) != self._world.cars or not chosen.any():
      raise _invalid(f"a launch names {int(chosen.sum())} of {len(chosen)} cars, and {self._world.cars} are played")
    if len(launch.seeds) not in (0, 1, self._world.cars):
      raise _invalid(f"a launch has {len(launch.seeds)} seeds: give none, one, or {self._world.cars}")
    stood = self._resting.all()
    features, info = self._stage.call(self._world.launch, chosen, list(launch.seeds))
    self._resting[chosen] = False
    self._actions[chosen] = _neutral(self._world)
    self._forget(chosen)
    if self._real and (stood or chosen.all()):
      self.clock.start()
    return console_pb2.Launched(
      features=encode_array(features, self._world.features), info=encode_columns(info), tick=self.tick
    )

  def _change(self, setup: Setup) -> None:
    if setup != self._setup:
      self.finish(well=True)
      self._world = self._stage.take(setup)
      self._setup = setup
    assert self._world is not None
    self._resting = np.ones(self._world.cars, bool)
    self._actions = np.stack([_neutral(self._world)] * self._world.cars)
    self._unsaid = None

  def _accept(self, step: console_pb2.Step) -> None:
    """Takes the actions of a step."""
    world = self._world
    if world is None or self._waiting:
      raise _wrong_time("a step came before the last one's tick" if world else "a step came before the first launch")
    if self._unsaid is None and not self._goes_on():
      resting = ", ".join(map(str, np.flatnonzero(self._resting)))
      raise _wrong_time(f"a step came while these cars rest that must be launched first: {resting}")
    try:
      actions = decode_array(step.actions, world.actions, world.cars)
    except ValueError:
      raise _invalid(f"a step has {len(step.actions)} bytes, which are no actions of {world.cars} cars") from None
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
      car = int(np.argwhere(~np.isfinite(actions))[0][0])
      raise _invalid(f"an action of car {car} is not a finite number: the policy has diverged")
    self._actions = actions
    self._waiting = True

  def _tick_at_real_pace(self) -> bool:
    """The tick that is due; whether a step waited for it, or for one before it."""
    self.clock.advance()
    if self._goes_on():
      self._advance()
    elif self._resting.all():
      self.clock.stop()
    else:
      self.missed += 1  # The world waits for a launch.
    return self._waiting

  def _goes_on(self) -> bool:
    """Whether the world can take a tick, with the cars that rest."""
    assert self._world is not None
    return not self._resting.all() if self._world.rests else not self._resting.any()

  def _advance(self) -> None:
    assert self._world is not None
    self.missed += not self._waiting
    happened: Tick = self._stage.call(self._world.step, self._actions, self._resting)
    self.tick += 1
    self._resting = self._resting | happened.terminated | happened.truncated
    self._unsaid = happened if self._unsaid is None else happened.after(self._unsaid)

  def _said(self) -> console_pb2.Reply:
    assert self._unsaid is not None
    assert self._world is not None
    said, self._unsaid, self._waiting = self._unsaid, None, False
    return console_pb2.Reply(
      stepped=console_pb2.Stepped(
        features=encode_array(said.features, self._world.features),
        rewards=said.rewards.tolist(),
        terminated=said.terminated.tolist(),
        truncated=said.truncated.tolist(),
        info=encode_columns(said.info),
        measures=encode_columns(said.measures),
        tick=self.tick,
        missed_ticks=self.missed,
        late_ticks=self.clock.late,
      )
    )

  def _forget(self, chosen: Mask) -> None:
    """Drops what happened to cars that begin anew, and was not said."""
    if self._unsaid is None:
      return
    if chosen.all():
      self._unsaid = None
      return
    unsaid, kept = self._unsaid, ~chosen
    columns = (
      {name: column._replace(present=column.present & kept) for name, column in columns.items()}
      for columns in (unsaid.info, unsaid.measures)
    )
    self._unsaid = Tick(
      unsaid.features, unsaid.rewards * kept, unsaid.terminated & kept, unsaid.truncated & kept, *columns
    )


def _neutral(world: World) -> Array:
  """An action that does as little as possible: what holds until the first one comes."""
  space: Any = world.actions
  low = getattr(space, "low", getattr(space, "start", 0))
  high = getattr(space, "high", np.inf)
  zero = np.zeros(space.shape, space.dtype)
  return np.asarray(np.minimum(np.maximum(zero, low), high), space.dtype)


def _wrong_time(sentence: str) -> Refusal:
  return Refusal(grpc.StatusCode.FAILED_PRECONDITION, sentence)


def _invalid(sentence: str) -> Refusal:
  return Refusal(grpc.StatusCode.INVALID_ARGUMENT, sentence)

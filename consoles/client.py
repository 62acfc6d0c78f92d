"""`Console`: a console as a gymnasium VectorEnv, for workers. `environment.name` is "consoles.client:Console"."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from configs.consoles import check_address
from configs.errors import EpisodesLost, UserError, name_hint
from consoles import console_pb2
from consoles.codec import (
  MEASURES,
  Array,
  Mask,
  decode_array,
  decode_columns,
  decode_space,
  encode_array,
  encode_setup,
)
from consoles.credentials import for_client
from consoles.seat import TIMEOUTS, Seat

_T = TypeVar("_T")

Answer = tuple[Array, npt.NDArray[np.float64], Mask, Mask, dict[str, Any]]


class Console(gymnasium.vector.VectorEnv[Array, Any, npt.NDArray[Any]]):
  """The cars of a console. Each has its own episodes, which `reset` with a `reset_mask` begins (AutoresetMode.DISABLED).

  When the console dies, restarts, or does not answer in time, `step` and `reset` raise `EpisodesLost`: all open episodes are
  gone. The next `reset` tries to come back, after a pause that grows from .1 to 5 s with each failure, and begins episodes of all
  cars. What no attempt can mend is a `UserError`.

  Attributes:
    control_seconds: from one tick of the world to the next.
    pace: "fast" or "real".
    address: of the console.
    missed_ticks: ticks of the present session without an action of their own, at the real pace.
    late_ticks: how many times the world itself was not ready when a tick was due.
  """

  metadata: dict[str, Any] = {"autoreset_mode": gymnasium.vector.AutoresetMode.DISABLED, "render_modes": []}

  def __init__(
    self,
    address: str,
    scenario: str = "",
    num_envs: int = 0,
    options: Mapping[str, Any] | None = None,
    world: str = "",
    timeouts: Mapping[str, float] | None = None,
    tls: Mapping[str, str] | None = None,
  ):
    """Asks the console what it plays. Its lease is taken at the first `reset`.

    Args:
      address: host:port.
      scenario: one of the console's; empty for its first.
      num_envs: how many cars; 0 for as many as the scenario has.
      options: of the scenario.
      world: the name of the world that is expected; empty for any.
      timeouts: seconds that replace those of `TIMEOUTS`.
      tls: "tls_cert", "tls_key" and "tls_ca" -> file; None without TLS.

    Raises:
      UserError: an argument is not valid, no console answers there, or it plays something else.
    """
    self.closed = True  # Until there is something to close.
    check_address(address)
    self._seat = Seat(
      address,
      encode_setup(scenario, _check_cars(num_envs), options or {}),
      world,
      {**TIMEOUTS, **_check_timeouts(timeouts or {})},
      for_client(tls or {}),
    )
    self.closed = False
    description = self._seat.description
    self.address = address
    self.pace = "real" if description.pace == console_pb2.REAL else "fast"
    self.control_seconds: float = description.control_seconds
    self.missed_ticks = 0
    self.late_ticks = 0
    self.num_envs = description.cars
    self.single_observation_space, self.single_action_space = self._spaces()
    self.observation_space = batch_space(self.single_observation_space, self.num_envs)
    self.action_space = batch_space(self.single_action_space, self.num_envs)

  @property
  def lost_reason(self) -> str:
    """Why the console was lost, or cannot be had, a sentence; empty while it plays."""
    return self._seat.lost_reason

  @property
  def losses(self) -> int:
    """How often the console was lost while it was played."""
    return self._seat.losses

  def check_pace(self, action_seconds: float) -> None:
    """Refuses a policy that cannot keep up.

    Args:
      action_seconds: how long it takes to choose the actions of all cars, and to hand them over.

    Raises:
      UserError: the world goes on at the real pace, and a tick is shorter.
    """
    if self.pace == "real" and action_seconds > self.control_seconds:
      raise UserError(
        f"One action takes {action_seconds:.3f} s, and the console at {self.address} goes on every {self.control_seconds:g} s: "
        "use a smaller network, fewer cars, or a console with --pace=fast."
      )

  def reset(
    self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
  ) -> tuple[Array, dict[str, Any]]:
    """Begins episodes, and takes the console's lease if need be.

    Args:
      seed: one for the world, or one for each car.
      options: "reset_mask", bool [cars], which cars begin anew; without it all do, and so they do after `EpisodesLost`.

    Returns:
      The features of all cars, and the info of those that begin anew.

    Raises:
      EpisodesLost: the console cannot be had, or was lost; the next `reset` tries again.
      UserError: it is not the console that it was, or an argument is not valid.
    """
    mask = self._mask(options)
    launch = console_pb2.Launch(seeds=self._seeds(seed))
    if not self._seat.is_taken:
      self._seat.take()
      launch.setup.CopyFrom(self._seat.setup)
    elif not mask.all():
      launch.cars.extend(mask.tolist())
    reply = self._seat.ask(console_pb2.Request(launch=launch), self._seat.timeouts["launch"], "launched")
    return self._decoded(lambda: (self._features(reply), decode_columns(reply.info, self.num_envs)))

  def step(self, actions: Any) -> Answer:
    """A tick; see gymnasium's VectorEnv.

    At the real pace rewards are summed over the ticks since the last step, which are more than one if the action came late.

    Raises:
      EpisodesLost: the console was lost, or did not answer in time; all open episodes are gone.
      UserError: an action is not valid.
    """
    if not self._seat.is_taken:
      raise EpisodesLost(self.lost_reason or f"The console at {self.address} has not been reset.")
    request = console_pb2.Request(step=console_pb2.Step(actions=self._actions(actions)))
    reply = self._seat.ask(request, self._seat.timeouts["step"] + self.control_seconds, "stepped")
    self._seat.note_step()
    self.missed_ticks, self.late_ticks = reply.missed_ticks, reply.late_ticks
    return self._decoded(lambda: self._answer(reply))

  def health(self) -> console_pb2.HealthReply:
    """How the console is, by its own account; anyone may ask, whoever plays.

    Raises:
      UserError: it does not answer.
    """
    return self._seat.health()

  def close_extras(self, **kwargs: Any) -> None:
    """Gives the console back."""
    self._seat.leave()

  def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    description = self._seat.description
    try:
      return decode_space(description.features), decode_space(description.actions)
    except (ValueError, TypeError, IndexError, AssertionError) as error:
      raise UserError(
        f"The console at {self.address} describes spaces that cannot be read ({error}): its description is at fault."
      ) from None

  def _answer(self, reply: console_pb2.Stepped) -> Answer:
    info = decode_columns(reply.info, self.num_envs)
    if reply.measures:
      measures = info[MEASURES] = decode_columns(reply.measures, self.num_envs)
      info[f"_{MEASURES}"] = np.any([measures[f"_{column.name}"] for column in reply.measures], axis=0)
    terminated, truncated = (
      np.array(flags, bool).reshape(self.num_envs) for flags in (reply.terminated, reply.truncated)
    )
    rewards = np.array(reply.rewards, np.float64).reshape(self.num_envs)
    return self._features(reply), rewards, terminated, truncated, info

  def _decoded(self, decode: Callable[[], _T]) -> _T:
    try:
      return decode()
    except (ValueError, TypeError) as error:
      self._seat.lose(f"The console at {self.address} sent what is not as it described ({error}).")

  def _features(self, reply: Any) -> Array:
    return decode_array(reply.features, self.single_observation_space, self.num_envs)

  def _actions(self, actions: Any) -> bytes:
    space = self.single_action_space
    assert space.shape is not None
    array = np.asarray(actions)
    if array.shape != (self.num_envs, *space.shape):
      raise UserError(
        f"The actions for the console at {self.address} have the shape {array.shape}, and it takes "
        f"{(self.num_envs, *space.shape)}: fix the policy."
      )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
      car = int(np.argwhere(~np.isfinite(array))[0][0])
      raise UserError(
        f"The action of car {car} for the console at {self.address} is {array[car].tolist()}: it must be finite, so the policy "
        "has diverged."
      )
    return encode_array(array, space)

  def _seeds(self, seed: int | Sequence[int] | None) -> list[int]:
    seeds: list[Any] = [] if seed is None else list(seed) if isinstance(seed, (list, tuple)) else [seed]
    wrong = [one for one in seeds if not isinstance(one, (int, np.integer)) or not 0 <= one < 2**64]
    if wrong or len(seeds) not in (0, 1, self.num_envs):
      raise UserError(
        f"The seed of a console is {seed!r}: it must be a whole number from 0, or a list of {self.num_envs} of them."
      )
    return [int(one) for one in seeds]

  def _mask(self, options: Mapping[str, Any] | None) -> Mask:
    unknown = sorted(set(options or {}) - {"reset_mask"})
    if unknown:
      raise UserError(
        f"A console's reset has no option {unknown[0]!r}: give the scenario's options with the environment."
      )
    given = (options or {}).get("reset_mask")
    if given is None:
      return np.ones(self.num_envs, bool)
    mask = np.asarray(given)
    if mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
      raise UserError(
        f"The reset_mask of a console is {mask!r}: it must be bool [{self.num_envs}], with at least one True."
      )
    return mask


def _check_cars(cars: int) -> int:
  if isinstance(cars, bool) or not isinstance(cars, int) or cars < 0:
    raise UserError(f"A console is to have {cars!r} cars: it must be a whole number, or 0 for the scenario's own.")
  return cars


def _check_timeouts(timeouts: Mapping[str, float]) -> Mapping[str, float]:
  for name, seconds in timeouts.items():
    if name not in TIMEOUTS:
      raise UserError(f"A console has no timeout {name!r}: {name_hint(name, TIMEOUTS)}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 86_400:
      raise UserError(
        f"A console's timeout {name!r} is {seconds!r}: it must be a number of seconds above 0, at most a day."
      )
  return timeouts

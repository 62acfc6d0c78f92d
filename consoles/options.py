"""The options of a console, from which both `python -m consoles` and `slipstream console` make their flags."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, get_args

from configs.consoles import Pace
from configs.errors import UserError

_MOST_PORT = 65_535


def _option(default: Any, text: str) -> Any:
  return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class ConsoleOptions:
  """What a console serves, and how.

  The type of a field's default is that of its flag, and its metadata has the flag's help.
  """

  world: str = _option(
    "", "The world: a built-in one, a gymnasium id, or module:function that makes a gymnasium Env or VectorEnv."
  )
  options: str = _option("", "JSON: keyword arguments of the world, which a worker's own options override.")
  host: str = _option("127.0.0.1", "The address to listen at; 0.0.0.0 for all of this host's.")
  port: int = _option(0, "The port; 0 takes a free one, which is printed.")
  pace: str = _option(
    "fast",
    "fast: the world waits for actions. real: it goes on at the control rate whether an action came or not; the last one holds.",
  )
  rate: float = _option(0.0, "Ticks a second; 0 takes the world's own (its metadata's render_fps), or else 10.")
  lease_seconds: float = _option(15.0, "Silence of a worker after which another one may have the console.")
  tls_cert: str = _option("", "For TLS: a file in PEM form with the console's certificate.")
  tls_key: str = _option("", "For TLS: a file in PEM form with its private key, which nobody else may read.")
  tls_ca: str = _option("", "For TLS: a file in PEM form with the CA's certificate, from which the workers' must come.")
  pythonpath: str = _option("", "Folders, separated by ':', from which a world of your own is imported.")

  def __post_init__(self) -> None:
    """Checks what can be checked without the world."""
    if not self.world:
      raise UserError("No --world is given: name a built-in world, a gymnasium id or module:function.")
    if self.pace not in get_args(Pace):
      raise UserError(f"--pace is {self.pace!r}: it must be fast or real.")
    if not 0 <= self.port <= _MOST_PORT:
      raise UserError(f"--port is {self.port}: it must be a whole number from 0 to {_MOST_PORT}.")
    if not (math.isfinite(self.rate) and self.rate >= 0):
      raise UserError(f"--rate is {self.rate}: it must be a number of ticks a second, or 0 for the world's own.")
    if not (math.isfinite(self.lease_seconds) and self.lease_seconds > 0):
      raise UserError(f"--lease_seconds is {self.lease_seconds}: it must be a number of seconds above 0.")
    self.arguments()

  def arguments(self) -> Mapping[str, Any]:
    """The world's keyword arguments.

    Raises:
      UserError: they are no JSON object.
    """
    if not self.options:
      return {}
    try:
      arguments = json.loads(self.options)
    except ValueError as error:
      raise UserError(f"--options cannot be read as JSON ({error}): write --options='{{\"name\": value}}'.") from None
    if not isinstance(arguments, dict):
      raise UserError(f"--options is {self.options}: it must be a JSON object, such as '{{\"name\": value}}'.")
    return arguments

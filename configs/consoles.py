"""`ConsolesConfig`: the consoles that workers and the evaluator play on."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

from configs.checks import require, require_whole

Pace = Literal["real", "fast"]

# As `environment.name`: the client of a console, which is a gymnasium `VectorEnv`.
CONSOLE = "consoles.client:Console"
_MOST_CONSOLES = 1_000
_MOST_PORT = 65_535


@dataclasses.dataclass(frozen=True)
class ConsolesConfig:
  """The consoles of a run, one for each worker and one for the evaluator (SSET, Appendix A.3); see docs/consoles.md.

  Without any, workers and the evaluator make the environment themselves.

  Attributes:
    count: consoles that a local run starts, of the run's environment; it then has a worker for each but the evaluator's. 0 starts
      none.
    addresses: host:port of consoles that run elsewhere, of the workers in their order and then of the evaluator. A local run uses
      these and starts none.
    pace: of the consoles that a run starts: "real" goes on at the world's control rate whether an action came or not, "fast"
      waits for actions.
  """

  count: int = 0
  addresses: tuple[str, ...] = ()
  pace: Pace = "real"

  def __post_init__(self) -> None:
    require_whole("consoles", least=0, most=_MOST_CONSOLES, count=self.count)
    require(self.pace in get_args(Pace), f"consoles.pace is {self.pace!r}: use one of {', '.join(get_args(Pace))}.")
    require(
      not (self.count and self.addresses),
      "consoles.count starts consoles, and consoles.addresses are of consoles that run already: set one of the two.",
    )
    check_addresses("consoles.addresses", self.addresses)

  @property
  def size(self) -> int:
    """How many consoles there are."""
    return self.count or len(self.addresses)


def check_addresses(setting: str, addresses: Sequence[str]) -> None:
  """Refuses what is not host:port, and an address that comes twice.

  Args:
    setting: what has the addresses, which starts the error message.
    addresses: of consoles.

  Raises:
    UserError: they cannot be used.
  """
  for address in addresses:
    check_address(address)
  twice = sorted({address for address in addresses if addresses.count(address) > 1})
  require(not twice, f"{setting} has {', '.join(twice)} more than once: a console serves one worker at a time.")


def check_address(address: str) -> None:
  """Refuses what is not host:port.

  Raises:
    UserError: it is something else.
  """
  host, colon, port = address.rpartition(":")
  require(
    bool(colon and host) and port.isdecimal() and 0 < int(port) <= _MOST_PORT,
    f"The console's address is {address!r}: write it as host:port.",
  )

"""Whether a server's tables can be reached without TLS, although it is served over TLS.

Reverb listens on every address of its host. The kernel closes its port behind the TLS tunnel to other hosts (`private_port.py`),
but a proxy on the server's host, say, may open it again. So roles on other hosts try it, and say in their heartbeats whether they
reach it.
"""

import dataclasses

from configs import UserError
from replay_server.contract.status import RunStatus


@dataclasses.dataclass(frozen=True)
class Guard:
  """What a server that is served over TLS does about its other port.

  Attributes:
    plain_port: on which Reverb listens.
    ends_server: whether the server ends when another host reaches it there.
  """

  plain_port: int
  ends_server: bool = False

  def check(self, status: RunStatus) -> None:
    """Checks that no other host reaches the tables without TLS, if the server is to end then.

    Raises:
      UserError: one does.
    """
    hosts = ", ".join(status.hosts_on_plain_port)
    if self.ends_server and hosts:
      raise UserError(
        f"The server's port {self.plain_port}, which is not protected, can be reached from {hosts}, and --tls_only is set: close "
        "it with a firewall or a network policy (docs/security.md), and start the server again."
      )

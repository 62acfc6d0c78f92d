"""The TLS tunnel beside a role: a stunnel process of its own, which ends with it.

A role that joins reaches its stunnel by a Unix socket that no other user may open: whoever reaches it has the role's rights. The
server's stunnel reaches Reverb by an address of this host other than 127.0.0.1 and ::1. Reverb takes what comes from those for a
process of its own host, and a client whose process id equals the server's, as in containers, then crashes.
"""

import contextlib
import ipaddress
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psutil

from configs import UserError
from launch.stunnel_log import Log, ServerLog
from launch.supervisor import Restarts
from launch.tls import ServerTls, Tls
from replay_server.contract import keepalive
from replay_server.contract.probes import split_address

# How often a role looks whether one of its files has changed.
WATCH_SECONDS = 2.0
_START_SECONDS = 20.0
_END_SECONDS = 5.0
_CONNECT_SECONDS = 10
# Linux takes no longer path of a Unix socket.
_LONGEST_PATH = 107
_SIGNALLED = 128


class Tunnel:
  """A stunnel process, which is started again when it dies, and when its files have changed.

  Two daemon threads look after it. The first one starts it: the kernel ends a stunnel with the thread that has started it.
  """

  def __init__(self, tls: Tls, lines: Callable[[], Sequence[str]], log: Log, on_lost: Callable[[str], None]):
    """Takes what the tunnel needs; `start` starts it.

    Args:
      tls: its files.
      lines: gives those of stunnel's configuration that depend on the side.
      log: reads what stunnel says.
      on_lost: called in another thread with a sentence when stunnel has died too often.
    """
    self._program = _program()
    self._tls = tls
    self._lines = lines
    self._log = log
    self._on_lost = on_lost
    self._restarts = Restarts(range(256))
    self._process: subprocess.Popen[str] | None = None
    self._is_up = threading.Event()
    self._is_closed = threading.Event()
    self._is_replaced = False
    self._failure = ""
    self._runner = threading.Thread(target=self._run, name="tunnel", daemon=True)
    self._watcher = threading.Thread(target=self._watch, name="tunnel-files", daemon=True)

  def start(self) -> None:
    """Starts stunnel, and returns when it listens.

    Raises:
      UserError: it does not start.
    """
    self._runner.start()
    if not self._is_up.wait(_START_SECONDS):
      self._failure = self._failure or f"it did not listen within {_START_SECONDS:g} s"
    if self._failure:
      self.close()
      raise UserError(f"stunnel cannot start ({self._failure}): check the ports and the files for TLS.")
    self._watcher.start()

  def close(self) -> None:
    """Ends stunnel; may be called twice."""
    self._is_closed.set()
    self._end_process()
    self._runner.join(_END_SECONDS)

  def _end_process(self) -> None:
    process = self._process
    if process is None:
      return
    with contextlib.suppress(ProcessLookupError):
      process.terminate()
      try:
        process.wait(_END_SECONDS)
      except subprocess.TimeoutExpired:
        process.kill()

  def _run(self) -> None:
    while True:
      began = time.monotonic()
      ending = self._run_once()
      if self._is_closed.is_set():
        return
      if not self._is_up.is_set():
        self._failure = self._log.last_error or ending
        self._is_up.set()
        return
      if self._is_replaced:
        self._is_replaced = False
        continue
      now = time.monotonic()
      delay = self._restarts.delay_after(1, now - began, now)
      if delay is None:
        self._on_lost(f"The TLS tunnel {ending} again and again ({self._log.last_error or 'no error is logged'}).")
        return
      print(f"The TLS tunnel {ending}, and is started again in {delay:g} s.", flush=True)
      if self._is_closed.wait(delay):
        return

  def _run_once(self) -> str:
    """Runs one stunnel until its end; returns how it ended."""
    # The kernel ends it with this process, however that ends.
    command = ["setpriv", "--pdeathsig=TERM", self._program, "-fd", "0"]
    try:
      process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        umask=0o177,  # Of the socket.
        start_new_session=True,  # Ctrl-C is for the role, which ends it.
      )
    except OSError as error:
      return f"cannot be started ({error.strerror})"
    self._process = process
    assert process.stdin is not None
    assert process.stderr is not None
    with process.stderr, contextlib.suppress(BrokenPipeError):
      with process.stdin:
        process.stdin.write(_configuration(self._tls, self._lines()))
      if self._is_closed.is_set():  # It was closed before it had a process.
        process.terminate()
      for line in process.stderr:
        if self._log.read(line):
          self._is_up.set()
    code = process.wait()
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"

  def _watch(self) -> None:
    state, said = self._tls.state(), ""
    while not self._is_closed.wait(WATCH_SECONDS):
      now = self._tls.state()
      if now == state:
        continue
      try:
        self._tls.check()
      except UserError as error:
        if str(error) != said:
          print(f"The earlier files for TLS stay in use. {error}", flush=True)
        said = str(error)
        continue
      state, said = now, ""
      print("The files for TLS have changed: the tunnel takes the new ones.", flush=True)
      # stunnel could read them itself, but leaves connections open that they no longer allow.
      self._is_replaced = True
      self._end_process()


class ClientTunnel(Tunnel):
  """A tunnel to a server.

  Attributes:
    path: of the Unix socket on which it listens.
  """

  def __init__(self, tls: Tls, address: str, on_lost: Callable[[str], None]):
    """Takes the server's address; see `Tunnel`."""
    self.path = _socket_path()
    self._address = address
    super().__init__(tls, self._configure, Log(), on_lost)

  def refusal(self) -> str:
    """Why the server refuses this process, or this process the server, as a sentence; "" if neither does, as far as is known."""
    return self._tls.refusal_of(self._address)

  def close(self) -> None:
    """Ends the tunnel and removes its socket."""
    super().close()
    pathlib.Path(self.path).unlink(missing_ok=True)

  def _configure(self) -> list[str]:
    pathlib.Path(self.path).unlink(missing_ok=True)  # A stunnel that was killed leaves it.
    host, _ = split_address(self._address)
    return [
      "client = yes",
      f"accept = {self.path}",
      f"connect = {self._address}",
      "delay = yes",  # The server may come back at another address of the same name.
      f"TIMEOUTconnect = {_CONNECT_SECONDS}",
      f"{'checkIP' if _is_ip(host) else 'checkHost'} = {host}",
      *_keep_alive("r"),
    ]


@contextlib.contextmanager
def client_tunnel(tls: Tls, address: str, on_lost: Callable[[str], None] | None = None) -> Iterator[ClientTunnel]:
  """A tunnel to the server at `address`, which ends with the `with` statement.

  Args:
    tls: the files of this process.
    address: "host:port"; the server's certificate must name the host.
    on_lost: called in another thread with a sentence when the tunnel has died too often.

  Raises:
    UserError: stunnel is not installed, or does not start.
  """
  tunnel = ClientTunnel(tls, address, on_lost or (lambda sentence: print(sentence, flush=True)))
  with contextlib.closing(tunnel):
    tunnel.start()
    yield tunnel


@contextlib.contextmanager
def server_tunnel(
  tls: ServerTls, port: int, plain_port: int, on_lost: Callable[[str], None], loopback_only: bool = False
) -> Iterator[None]:
  """A tunnel from `port` of every address of this host to Reverb, which ends with the `with` statement.

  Args:
    tls: the server's files.
    port: on which it listens.
    plain_port: on which Reverb listens.
    on_lost: called in another thread with a sentence when the tunnel has died too often.
    loopback_only: whether Reverb is reached by this host's loopback address alone. Any other is preferred: a client of another
      make may have the server's process id on its own machine, and Reverb would take it for the server itself.

  Raises:
    UserError: stunnel is not installed or does not start, or this host has no address but that of its loopback device.
  """

  def address() -> str:
    return "127.0.0.1" if loopback_only else _own_address()

  def configure() -> list[str]:
    return [
      f"accept = {'::' if socket.has_dualstack_ipv6() else '0.0.0.0'}:{port}",
      f"connect = {address()}:{plain_port}",
      "requireCert = yes",
      *([] if tls.crl is None else [f"CRLfile = {tls.crl}"]),
      *_keep_alive("l"),
    ]

  address()  # So that its absence is told before anything is started.
  tunnel = Tunnel(tls, configure, ServerLog(), on_lost)
  with contextlib.closing(tunnel):
    tunnel.start()
    yield


def _configuration(tls: Tls, lines: Sequence[str]) -> str:
  common = [
    "foreground = yes",
    "syslog = no",
    "pid =",
    "debug = info",
    "[slipstream]",
    "sslVersion = TLSv1.3",
    f"cert = {tls.cert}",
    f"key = {tls.key}",
    f"CAfile = {tls.ca}",
    "verifyChain = yes",
    "TIMEOUTclose = 0",
  ]
  options = [line for line in lines if line.startswith("socket = ")]
  others = [line for line in lines if line not in options]
  return "\n".join([*options, *common, *others, ""])


def _keep_alive(side: str) -> list[str]:
  """Socket options for connections over the network: "l" are those that stunnel accepts, "r" those that it opens."""
  return [
    f"socket = {side}:SO_KEEPALIVE=1",
    f"socket = {side}:TCP_KEEPIDLE={keepalive.IDLE_SECONDS}",
    f"socket = {side}:TCP_KEEPINTVL={keepalive.INTERVAL_SECONDS}",
    f"socket = {side}:TCP_KEEPCNT={keepalive.PROBES}",
  ]


def _program() -> str:
  program = shutil.which("stunnel4") or shutil.which("stunnel")
  if program is None:
    raise UserError("TLS needs stunnel, which is not installed here: install it ('apt-get install stunnel4').")
  if shutil.which("setpriv") is None:
    raise UserError("TLS needs setpriv, which is not installed here: install it ('apt-get install util-linux').")
  return program


def _socket_path() -> str:
  path = f"{tempfile.gettempdir()}/slipstream-{secrets.token_hex(8)}"
  if len(path.encode()) > _LONGEST_PATH:
    raise UserError(
      f"The path of the temporary folder {tempfile.gettempdir()} is too long: set TMPDIR to a shorter one."
    )
  return path


def _is_ip(host: str) -> bool:
  try:
    ipaddress.ip_address(host)
  except ValueError:
    return False
  return True


def _own_address() -> str:
  """An address of this host that is none of the loopback device's; IPv6 in brackets."""
  up = {name for name, device in psutil.net_if_stats().items() if device.isup}
  found = [
    ipaddress.ip_address(address.address.partition("%")[0])
    for name, addresses in psutil.net_if_addrs().items()
    for address in addresses
    if name in up and address.family in (socket.AF_INET, socket.AF_INET6)
  ]
  usable = [ip for ip in found if not (ip.is_loopback or ip.is_link_local)]
  if not usable:
    raise UserError(
      "This host has no network address but that of its loopback device, and Reverb cannot be served over TLS from that: connect "
      "it to a network."
    )
  first = min(usable, key=lambda ip: ip.version)
  return f"[{first}]" if first.version == 6 else str(first)

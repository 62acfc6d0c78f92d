"""The HTTP endpoint of a role: /metrics for Prometheus, /healthz and /readyz for an orchestrator.

It has threads of its own, and what it answers is read from the role when somebody asks, without a call to the replay server. So
it goes on answering while the server is away, and costs the role nothing between two scrapes.
"""

import contextlib
import errno
import http.server
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from configs import UserError
from launch.metrics.catalogue import METRICS, Sample
from replay_server.contract.progress import START_SECONDS, Progress

# In which a client has to send its request.
_REQUEST_SECONDS = 5.0
# Requests that are answered at once; more are turned away, so that nobody can fill the process with threads.
_MOST_REQUESTS = 8
_POLL_SECONDS = 0.25


class Probe(Protocol):
  """What a role that has begun says of itself; called by the exporter's threads."""

  def hung(self, progress: Progress) -> str:
    """Why the role counts as hung, as a sentence; "" if its loop moves."""

  def unready(self) -> str:
    """Why the role does not do its work at present, as a sentence; "" if it does."""

  def samples(self) -> Iterable[Sample]:
    """The present values of its metrics; those that are not known yet are left out."""


class Exporter(Collector):
  """The exporter of one process; `close` or the `with` statement ends it.

  Attributes:
    role: of the process: server, learner, actor or evaluator.
    name: of the process, for sentences.
    progress: of its loop.
    probe: the role; None until it has begun.
    port: that it listens on.
  """

  def __init__(self, port: int, role: str, name: str, progress: Progress | None = None):
    """Opens the port and begins to answer.

    Args:
      port: to listen on, on all addresses; 0 takes a free one.
      role: of the process.
      name: of the process.
      progress: of its loop; None makes one.

    Raises:
      UserError: the port does not exist or is taken.
    """
    self.role = role
    self.name = name
    self.progress = progress or Progress()
    self.progress.note(START_SECONDS)
    self.probe: Probe | None = None
    self.registry = CollectorRegistry()
    self.registry.register(self)
    ProcessCollector(registry=self.registry)
    self._server = _Server(_listen(port), self)
    self.port: int = self._server.server_address[1]
    self._thread = threading.Thread(
      target=self._server.serve_forever, args=(_POLL_SECONDS,), name="metrics", daemon=True
    )
    self._thread.start()

  def __enter__(self) -> "Exporter":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Ends the exporter."""
    self._server.shutdown()
    self._server.server_close()

  def hung(self) -> str:
    """Why the process counts as hung, as a sentence; "" if its loop moves."""
    if self.probe is not None:
      return self.probe.hung(self.progress)
    age, allowed = self.progress.age_seconds, self.progress.allowed_seconds
    if age <= allowed:
      return ""
    return (
      f"{self.name} has been starting for {age:.0f} s, and may take {allowed:g} s: see its log, and start it again."
    )

  def unready(self) -> str:
    """Why the process does not do its work at present, as a sentence; "" if it does."""
    return f"{self.name} is starting." if self.probe is None else self.hung() or self.probe.unready()

  def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """The present metrics, for Prometheus's client."""
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for sample in self._samples():
      metric = METRICS[sample.name]
      if sample.name not in families:
        family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        families[sample.name] = family(metric.name, metric.meaning, labels=metric.labels)
      families[sample.name].add_metric(list(sample.labels), float(sample.value))
    yield from families.values()

  def _samples(self) -> Iterator[Sample]:
    own = (self.role,)
    yield Sample("slipstream_role_healthy", not self.hung(), own)
    yield Sample("slipstream_role_ready", not self.unready(), own)
    yield Sample("slipstream_role_loop_age_seconds", self.progress.age_seconds, own)
    if self.probe is not None:
      yield from self.probe.samples()


def _listen(port: int) -> socket.socket:
  """A socket that listens on all addresses of this machine."""
  if not 0 <= port < 65_536:
    raise UserError(f"--metrics_port is {port}, which does not exist: use one from 1 to 65535, or 0 for a free one.")
  try:
    if socket.has_dualstack_ipv6():
      with contextlib.suppress(_NoIPv6):
        return _try_ipv6(port)
    return socket.create_server(("", port))
  except OSError as error:
    reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
    raise UserError(
      f"Port {port} {reason}, so nobody could read the metrics: end what listens there, or choose another port with "
      "--metrics_port."
    ) from None


class _NoIPv6(Exception):
  """The kernel knows IPv6, but has it switched off."""


def _try_ipv6(port: int) -> socket.socket:
  try:
    return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
  except OSError as error:
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
      raise _NoIPv6 from None
    raise


class _Server(http.server.ThreadingHTTPServer):
  daemon_threads = True

  def __init__(self, listening: socket.socket, exporter: Exporter):
    # Neither binds nor asks for the host's name, which may take long.
    super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
    self.socket.close()
    self.socket = listening
    self.exporter = exporter
    self._free = threading.BoundedSemaphore(_MOST_REQUESTS)

  def process_request(self, request: Any, client_address: Any) -> None:
    if not self._free.acquire(blocking=False):
      self.shutdown_request(request)
      return
    super().process_request(request, client_address)

  def process_request_thread(self, request: Any, client_address: Any) -> None:
    try:
      super().process_request_thread(request, client_address)
    finally:
      self._free.release()

  def handle_error(self, request: Any, client_address: Any) -> None:
    if not isinstance(
      sys.exc_info()[1], (ConnectionError, TimeoutError)
    ):  # A client that is gone is no error of the role's.
      super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
  timeout = _REQUEST_SECONDS
  server: _Server

  def do_GET(self) -> None:
    exporter, path = self.server.exporter, self.path.partition("?")[0]
    if path == "/metrics":
      encode, content_type = choose_encoder(self.headers.get("Accept", ""))
      self._answer(200, content_type, encode(exporter.registry))
    elif path == "/healthz":
      self._say(exporter.hung(), f"The loop of {exporter.name} moves.")
    elif path == "/readyz":
      self._say(exporter.unready(), f"{exporter.name} is ready.")
    else:
      self._answer(404, "text/plain; charset=utf-8", b"There are /metrics, /healthz and /readyz.\n")

  def do_HEAD(self) -> None:
    self.do_GET()

  def _say(self, problem: str, otherwise: str) -> None:
    self._answer(503 if problem else 200, "text/plain; charset=utf-8", f"{problem or otherwise}\n".encode())

  def _answer(self, code: int, content_type: str, body: bytes) -> None:
    self.send_response(code)
    self.send_header("Content-Type", content_type)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)

  def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # The name is the base class's.
    """Probes come every few seconds, and would fill the role's log."""


@contextlib.contextmanager
def opened_exporter(port: int | None, role: str, name: str) -> Iterator[Exporter | None]:
  """The exporter of a process, for the `with` statement; None if `port` is None.

  Raises:
    UserError: the port does not exist or is taken.
  """
  if port is None:
    yield None
    return
  with Exporter(port, role, name) as exporter:
    print(f"Metrics on port {exporter.port}.", flush=True)
    yield exporter

"""The exporter by itself: what it answers while a role starts, and what it does with ports and clients that are in its way."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from configs import UserError
from launch.metrics.exporter import Exporter, opened_exporter
from replay_server.contract.progress import START_SECONDS, Progress
from tests.launch.metrics.running import get
from tests.serving import wait_for


class _Clock:
  def __init__(self) -> None:
    self.now = 100.0

  def __call__(self) -> float:
    return self.now


def test_a_role_that_starts_is_alive_and_not_ready() -> None:
  with Exporter(0, "learner", "learner") as exporter:
    assert get(exporter, "/healthz") == (200, "The loop of learner moves.\n")
    assert get(exporter, "/readyz") == (503, "learner is starting.\n")
    code, metrics = get(exporter, "/metrics")
    assert code == 200
    assert 'slipstream_role_healthy{role="learner"} 1.0' in metrics
    assert 'slipstream_role_ready{role="learner"} 0.0' in metrics
    assert "process_resident_memory_bytes" in metrics


def test_a_role_that_starts_for_too_long_hangs() -> None:
  clock = _Clock()
  with Exporter(0, "actor", "actor_3", Progress(clock=clock)) as exporter:
    clock.now += START_SECONDS
    assert get(exporter, "/healthz")[0] == 200
    clock.now += 1
    code, sentence = get(exporter, "/healthz")
    assert (code, sentence) == (
      503,
      "actor_3 has been starting for 601 s, and may take 600 s: see its log, and start it again.\n",
    )


def test_what_is_not_there_is_said() -> None:
  with Exporter(0, "actor", "actor_3") as exporter:
    assert get(exporter, "/") == (404, "There are /metrics, /healthz and /readyz.\n")


def test_it_listens_on_all_addresses() -> None:
  with Exporter(0, "actor", "actor_3") as exporter:
    families = [socket.AF_INET, *([socket.AF_INET6] if socket.has_dualstack_ipv6() else [])]
    for family in families:
      with socket.socket(family) as client:
        client.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", exporter.port))


def test_a_port_that_is_taken_or_does_not_exist_is_refused_by_a_sentence() -> None:
  with (
    Exporter(0, "actor", "actor_3") as first,
    pytest.raises(UserError, match=rf"Port {first.port} is in use, so .*--metrics_port"),
  ):
    Exporter(first.port, "actor", "actor_4")
  with pytest.raises(UserError, match="--metrics_port is 70000, which does not exist"):
    Exporter(70_000, "actor", "actor_4")


def test_the_port_is_free_again_afterwards() -> None:
  with Exporter(0, "actor", "actor_3") as exporter:
    port = exporter.port
    get(exporter, "/healthz")
  with Exporter(port, "actor", "actor_3") as exporter:
    assert exporter.port == port


def test_without_a_port_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
  with opened_exporter(None, "actor", "actor_3") as exporter:
    assert exporter is None
  with opened_exporter(0, "actor", "actor_3") as exporter:
    assert exporter is not None
    assert capsys.readouterr().out == f"Metrics on port {exporter.port}.\n"


@contextlib.contextmanager
def _silent_clients(port: int, count: int) -> Iterator[None]:
  with contextlib.ExitStack() as stack:
    for _ in range(count):
      stack.enter_context(socket.create_connection(("127.0.0.1", port)))
    yield


def _answers(exporter: Exporter) -> bool:
  try:
    return get(exporter, "/healthz")[0] == 200
  except OSError:  # It is turned away.
    return False


def test_clients_that_say_nothing_cannot_fill_the_process_with_threads() -> None:
  with Exporter(0, "actor", "actor_3") as exporter:
    with _silent_clients(exporter.port, 20):
      assert not _answers(exporter)
    wait_for(lambda: _answers(exporter))

"""What a server that is served over TLS does when others reach its tables without it."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from configs import UserError
from launch.view.run_view import plain_line
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.contract.messages import Heartbeat, encode
from replay_server.contract.probes import is_reachable_without_tls, listens, speaks_tls
from replay_server.process.guard import Guard
from replay_server.process.keeper import Keeper
from replay_server.process.private_port import keep_private
from replay_server.process.server import ReplayServer
from tests.launch.processes import ROOT
from tests.serving import make_config, serving


@pytest.fixture(name="server")
def _server(tmp_path: pathlib.Path) -> Iterator[ReplayServer]:
  with serving(make_config(), tmp_path) as server:
    yield server


def _beat(name: str, host: str, reached: int = 0) -> Heartbeat:
  return Heartbeat(name, "actor", host, 1, "running", instance=name, paused=True, reached_plain_port=reached)


def _send(server: ReplayServer, *beats: Heartbeat) -> None:
  with contextlib.closing(server.connection.writer()) as writer:
    for beat in beats:
      writer.write(layout.HEARTBEATS, [encode(beat)])


def test_the_status_names_the_hosts_that_reach_the_plain_port(server: ReplayServer, tmp_path: pathlib.Path) -> None:
  with contextlib.closing(Keeper(server, tmp_path, guard=Guard(server.port))) as keeper:
    port = server.port
    _send(server, _beat("a", "near"), _beat("b", "far", port), _beat("c", "far", port), _beat("d", "away", port))
    status = keeper.tick()
  assert status.plain_port == server.port
  assert status.hosts_on_plain_port == ("away", "far")
  assert f"port {server.port} is open to away" in plain_line(status)


def test_a_server_without_tls_has_no_plain_port(server: ReplayServer, tmp_path: pathlib.Path) -> None:
  with contextlib.closing(Keeper(server, tmp_path)) as keeper:
    assert keeper.tick().plain_port == 0


def test_a_server_that_is_for_tls_only_writes_a_snapshot_and_ends(server: ReplayServer, tmp_path: pathlib.Path) -> None:
  with contextlib.closing(Keeper(server, tmp_path, guard=Guard(server.port, ends_server=True))) as keeper:
    _send(server, _beat("a", "near"), _beat("b", "far", server.port))
    with pytest.raises(UserError) as ended:
      keeper.run(threading.Event())
  assert str(ended.value) == (
    f"The server's port {server.port}, which is not protected, can be reached from far, and --tls_only is set: close it with a "
    "firewall or a network policy (docs/security.md), and start the server again."
  )
  assert server.snapshot == 1


def test_what_a_role_has_found_of_an_earlier_server_does_not_end_this_one(
  server: ReplayServer, tmp_path: pathlib.Path
) -> None:
  with contextlib.closing(Keeper(server, tmp_path, guard=Guard(server.port, ends_server=True))) as keeper:
    _send(server, _beat("a", "far", server.port - 1))
    assert keeper.tick().hosts_on_plain_port == ()


def test_a_private_server_answers_its_own_host(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, is_private=True) as server:
    assert keep_private(server.port).sockets > 0  # It is the sockets of Reverb that are filtered.
    connection = Connection(server.address)
    connection.wait_until_up(60)
    assert connection.run_id == "run"
  assert keep_private(server.port).sockets == 0


def test_a_port_is_kept_private_while_other_threads_open_and_close_files_and_sockets() -> None:
  ended = threading.Event()

  def open_and_close() -> None:
    while not ended.is_set():
      with socket.socket(), pathlib.Path(os.devnull).open(encoding="utf-8"):
        pass

  threads = [threading.Thread(target=open_and_close) for _ in range(3)]
  with socket.create_server(("", 0)) as listening:
    for thread in threads:
      thread.start()
    try:
      found = {keep_private(listening.getsockname()[1]).sockets for _ in range(300)}
    finally:
      ended.set()
      for thread in threads:
        thread.join()
  assert found == {1}


_UNPRIVILEGED = """
import ctypes, os, socket
from replay_server.process.private_port import keep_private
listening = socket.create_server(("", 0))
port = listening.getsockname()[1]
addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, so that it may look at its own descriptors, as without the change of user.
kept = keep_private(port)
assert kept.sockets == 1
connection = socket.create_connection(("127.0.0.1", port), 5)
connection.sendall(b"1")
accepted, _ = listening.accept()
assert accepted.recv(1) == b"1"
for address in addresses:
  if address.startswith("127.") or not kept.loopback_only:
    continue
  try:
    socket.create_connection((address, port), 5)
  except ConnectionRefusedError:
    continue
  raise AssertionError(f"{address} leads to the port")
print("kept")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_process_without_privileges_keeps_its_port_private_too() -> None:
  words = [sys.executable, "-c", _UNPRIVILEGED]
  done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
  assert done.stdout == "kept\n", done.stderr


def test_what_listens_on_this_host_is_not_taken_for_a_port_that_is_open_to_others(server: ReplayServer) -> None:
  assert listens(server.address)
  assert not speaks_tls(server.address)
  assert not is_reachable_without_tls(server.address)
  with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    assert not listens(f"127.0.0.1:{bound.getsockname()[1]}")

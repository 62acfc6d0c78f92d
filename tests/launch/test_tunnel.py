"""TLS tunnels between a real server and real clients, and who is not let in."""

import contextlib
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

from configs import UserError
from launch.endpoint import Endpoint, connected
from launch.tls import ServerTls, Tls
from launch.tunnel import server_tunnel
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from replay_server.process.server import ReplayServer
from slipstream.main import run
from tests.actors.running import SPEC, make_run
from tests.certificates import Authority, make_expired, needs_stunnel
from tests.serving import free_port, keeping, serving, wait_for

pytestmark = needs_stunnel

_SECONDS = 60.0
_HOLDER = """
import pathlib, sys
from launch.endpoint import Endpoint, connected
from launch.tls import Tls

folder, address = pathlib.Path(sys.argv[1]), sys.argv[2]
tls = Tls(folder / "alice.crt", folder / "alice.key", folder / "ca.crt")
with connected(Endpoint(address, tls=tls)) as connection:
  print(connection.route.path, flush=True)
  sys.stdin.read()
"""


@pytest.fixture(name="ours", scope="module")
def _ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
  authority = Authority(tmp_path_factory.mktemp("tls") / "ours")
  authority.run("server", "localhost", "127.0.0.1")
  authority.run("role", "alice", "bob")
  authority.dated("elsewhere", "20200101000000Z", "20900101000000Z", "serverAuth", "DNS:elsewhere")
  authority.dated("outdated", "20200101000000Z", "20210101000000Z", "serverAuth", "DNS:localhost")
  make_expired(authority)
  return authority


@pytest.fixture(name="theirs", scope="module")
def _theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
  authority = Authority(tmp_path_factory.mktemp("tls") / "theirs")
  authority.run("role", "mallory")
  return authority


def _files(authority: Authority, name: str, ca: pathlib.Path | None = None) -> Tls:
  return Tls(authority.folder / f"{name}.crt", authority.folder / f"{name}.key", ca or authority.ca)


def _server_files(authority: Authority) -> ServerTls:
  return ServerTls(authority.folder / "server.crt", authority.folder / "server.key", authority.ca, authority.crl)


@contextlib.contextmanager
def _served(
  authority: Authority, folder: pathlib.Path, port: int = 0, files: ServerTls | None = None
) -> Iterator[tuple[ReplayServer, str]]:
  """A server, and its address over TLS."""
  port = port or free_port()
  files = files or _server_files(authority)
  with serving(make_run(), folder, SPEC) as server, server_tunnel(files, port, server.port, pytest.fail):
    yield server, f"localhost:{port}"


def _stunnels() -> list[psutil.Process]:
  """Of this process, the server's first."""
  children = psutil.Process().children()
  return sorted((child for child in children if "stunnel" in child.name()), key=lambda child: child.create_time())


def _write_and_read(connection: Connection, text: bytes) -> None:
  with contextlib.closing(connection.writer()) as writer:
    writer.write(layout.EPISODES, [np.array(text, dtype=object)])
  (columns,) = connection.read_many(layout.EPISODES, 10, "test", _SECONDS)
  assert columns[0].item() == text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_items_pass_both_ways_on_both_connections_of_a_client(
  ours: Authority, tmp_path: pathlib.Path, host: str
) -> None:
  with _served(ours, tmp_path) as (_, address):
    endpoint = Endpoint(address.replace("localhost", host), tls=_files(ours, "alice"))
    with connected(endpoint) as connection:
      connection.wait_until_up(_SECONDS)
      assert connection.run_id == "run"
      _write_and_read(connection, b"one")
      _write_and_read(connection.bulk(), b"two")
      connection.close()
    assert len(_stunnels()) == 1
  assert _stunnels() == []


def test_the_socket_of_a_tunnel_is_its_users_alone_and_is_removed(ours: Authority) -> None:
  with connected(Endpoint("localhost:1", tls=_files(ours, "alice"))) as connection:
    assert connection.route is not None
    path = pathlib.Path(connection.route.path)
    assert path.stat().st_mode & 0o777 == 0o600
  assert not path.exists()


def _refusal(endpoint: Endpoint) -> str:
  with connected(endpoint) as connection, pytest.raises(UserError) as refused:
    connection.wait_until_up(_SECONDS)
  return str(refused.value).replace(endpoint.address, "SERVER")


def test_who_has_no_certificate_of_the_ca_is_told_so(
  ours: Authority, theirs: Authority, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  ours.run("role", "carol")
  ours.run("revoke", "carol")
  with _served(ours, tmp_path) as (_, address):
    assert _refusal(Endpoint(address)) == (
      "The server at SERVER is reached by TLS alone: give --tls_cert, --tls_key and --tls_ca (docs/security.md)."
    )
    revoked = _files(ours, "carol")
    assert _refusal(Endpoint(address, tls=revoked)) == (
      f"The server at SERVER refuses the certificate {revoked.cert}: it is revoked, so ask whoever runs the server for "
      "another one."
    )
    assert _refusal(Endpoint(address, tls=_files(theirs, "mallory"))) == (
      "The certificate of the server at SERVER is not of the CA of --tls_ca (self-signed certificate in certificate chain): "
      "check the address, or name the run's CA."
    )
    both = tmp_path / "both.crt"
    both.write_bytes(ours.ca.read_bytes() + theirs.ca.read_bytes())
    stranger = _files(theirs, "mallory", both)
    assert _refusal(Endpoint(address, tls=stranger)) == (
      f"The server at SERVER refuses the certificate {stranger.cert}: it is not of the server's CA, so ask whoever runs the "
      "server for one."
    )
    assert _refusal(Endpoint(address.replace("localhost", "127.0.0.2"), tls=_files(ours, "alice"))) == (
      "The certificate of the server at SERVER does not name 127.0.0.2: use a name that it has, or make it again with "
      "'docker/tls/certificates.sh server'."
    )
  said = capsys.readouterr().out
  for reason in ("its certificate is revoked", "it does not speak TLS", "its certificate is of another CA"):
    assert said.count(f"Refused a connection from 127.0.0.1: {reason}.") == 1


@pytest.mark.parametrize(
  ("name", "alert"),
  [
    ("", "CERTIFICATE_REQUIRED"),
    ("expired", "CERTIFICATE_EXPIRED"),
    ("early", "BAD_CERTIFICATE"),
    ("server", "UNSUPPORTED"),
  ],
)
def test_a_client_that_does_not_check_itself_is_refused_by_the_server(
  ours: Authority, tmp_path: pathlib.Path, name: str, alert: str
) -> None:
  context = ssl.create_default_context(cafile=ours.ca)
  if name:
    context.load_cert_chain(ours.folder / f"{name}.crt", ours.folder / f"{name}.key")
  with _served(ours, tmp_path) as (_, address):
    place = ("localhost", int(address.rpartition(":")[2]))
    with (
      socket.create_connection(place, timeout=_SECONDS) as plain,
      context.wrap_socket(plain, server_hostname="localhost") as secured,
      pytest.raises(ssl.SSLError, match=alert),
    ):
      secured.recv(1)


@pytest.mark.parametrize(("name", "why"), [("elsewhere", "does not name localhost"), ("outdated", "has expired")])
def test_a_server_whose_certificate_is_not_right_is_not_trusted(ours: Authority, name: str, why: str) -> None:
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
  context.load_cert_chain(ours.folder / f"{name}.crt", ours.folder / f"{name}.key")
  with socket.create_server(("localhost", 0)) as listening:

    def answer() -> None:
      with contextlib.suppress(OSError):
        while True:
          plain, _ = listening.accept()
          with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as secured:
            secured.recv(1)

    threading.Thread(target=answer, daemon=True).start()
    assert why in _refusal(Endpoint(f"localhost:{listening.getsockname()[1]}", tls=_files(ours, "alice")))


def test_a_server_without_tls_is_told_from_one_with_it(ours: Authority, tmp_path: pathlib.Path) -> None:
  with serving(make_run(), tmp_path, SPEC) as server:
    assert _refusal(Endpoint(server.address, tls=_files(ours, "alice"))) == (
      "The server at SERVER does not speak TLS: leave out the flags --tls_*, or serve with them too."
    )


def _answers(connection: Connection) -> Callable[[], bool]:
  def answers() -> bool:
    connection.renew()
    with contextlib.suppress(Exception):
      return bool(connection.info())
    return False

  return answers


def test_a_tunnel_that_is_killed_is_started_again(
  ours: Authority, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with _served(ours, tmp_path) as (_, address), connected(Endpoint(address, tls=_files(ours, "alice"))) as connection:
    connection.wait_until_up(_SECONDS)
    killed = _stunnels()
    assert len(killed) == 2
    for process in killed:
      process.kill()
    wait_for(_answers(connection), _SECONDS)
    assert {process.pid for process in _stunnels()}.isdisjoint(process.pid for process in killed)
  assert capsys.readouterr().out.count("was ended by signal 9, and is started again in 1 s.") == 2


def test_a_right_is_taken_away_while_the_server_runs(
  ours: Authority, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  ours.run("role", "dave")
  with contextlib.ExitStack() as stack:
    server, address = stack.enter_context(_served(ours, tmp_path))
    dave = stack.enter_context(connected(Endpoint(address, tls=_files(ours, "dave"))))
    alice = stack.enter_context(connected(Endpoint(address, tls=_files(ours, "alice"))))
    for connection in (dave, alice):
      connection.wait_until_up(_SECONDS)
    ours.run("revoke", "dave")
    wait_for(lambda: "it is revoked" in dave.refusal(), _SECONDS)
    wait_for(_answers(alice), _SECONDS)
    assert not _answers(dave)()
    assert alice.refusal() == ""
    assert server.connection.info()
  assert "The files for TLS have changed: the tunnel takes the new ones." in capsys.readouterr().out


def test_a_list_that_cannot_be_read_leaves_the_earlier_one_in_use(
  ours: Authority, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  crl = tmp_path / "crl.pem"
  crl.write_bytes(ours.crl.read_bytes())
  said = ""

  def is_said() -> bool:
    nonlocal said
    said += capsys.readouterr().out
    return f"The earlier files for TLS stay in use. --tls_crl: {crl} holds no list" in said

  files = ServerTls(ours.folder / "server.crt", ours.folder / "server.key", ours.ca, crl)
  with (
    _served(ours, tmp_path, files=files) as (_, address),
    connected(Endpoint(address, tls=_files(ours, "alice"))) as connection,
  ):
    connection.wait_until_up(_SECONDS)
    crl.write_text("half of a list")
    wait_for(is_said, _SECONDS)
    assert connection.info()


def test_a_tunnel_ends_with_its_process_however_that_ends(ours: Authority) -> None:
  command = [sys.executable, "-c", _HOLDER, str(ours.folder), "localhost:1"]
  with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
    assert holder.stdout is not None
    path = pathlib.Path(holder.stdout.readline().strip())
    (stunnel,) = psutil.Process(holder.pid).children()
    assert path.exists()
    holder.send_signal(signal.SIGKILL)
    stunnel.wait(_SECONDS)
    wait_for(lambda: not path.exists(), _SECONDS)


def test_a_port_that_is_taken_is_told(ours: Authority) -> None:
  with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
    port = taken.getsockname()[1]
    with (
      pytest.raises(UserError, match="stunnel cannot start"),
      server_tunnel(_server_files(ours), port, 1, pytest.fail),
    ):
      pass


def test_a_user_sees_the_status_over_tls(
  ours: Authority, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with _served(ours, tmp_path) as (server, address), keeping(server, tmp_path):
    assert run(["status", f"--server={address}", *ours.flags("alice")]) == 0
    assert "run run" in capsys.readouterr().out
    assert run(["doctor", f"--server={address}", *ours.flags("alice")]) == 0
    capsys.readouterr()
    assert run(["doctor", f"--server={address}"]) == 2
    assert "is reached by TLS alone" in capsys.readouterr().out

"""Rows written and updates per second over TLS, against the same without it."""

import contextlib
import io
import pathlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator

import portpicker

from benchmarks import adder, learner, server, workload
from benchmarks.measure import Contender, Figure, Ratio, Report, interleave
from launch.endpoint import Endpoint, connected
from launch.tls import ServerTls, Tls
from launch.tunnel import server_tunnel
from learner.learner import make_learner
from replay_server.contract.connection import Connection
from replay_server.contract.probes import split_address

_SCRIPT = pathlib.Path(__file__).parents[1] / "docker" / "tls" / "certificates.sh"
_WITHOUT, _WITH = "without TLS", "over TLS"


def run(runs: int, quick: bool) -> Report:
  """Rows and updates per second; server, both tunnels and client share this machine's cores."""
  size, steps, seconds = (700, 1_000, 0.2) if quick else (20_000, 10_000, 2.0)
  with tempfile.TemporaryDirectory() as folder:
    certificates = pathlib.Path(folder) / "tls"
    _make_certificates(certificates)
    rows = _rows_written(certificates, steps, runs)
    updates = _updates(certificates, size, seconds, runs)
  return Report(
    "tls",
    (
      "TLS 1.3 between two stunnels; client, server and both stunnels share this machine's cores.",
      "Rows: the writer of the benchmark adder. Updates: the learner of the benchmark learner.",
    ),
    (*rows, *updates),
    (
      Ratio.of("rows written: over TLS / without", rows[1], rows[0], required=0.75),
      Ratio.of("updates: over TLS / without", updates[1], updates[0], required=0.5),
    ),
  )


def _make_certificates(folder: pathlib.Path) -> None:
  for command, *names in (("ca",), ("server", "localhost"), ("role", "client")):
    subprocess.run([str(_SCRIPT), command, str(folder), *names], check=True, timeout=60)


@contextlib.contextmanager
def _both_ways(process: server.ServerProcess, certificates: pathlib.Path) -> Iterator[dict[str, Connection]]:
  """A connection without TLS and one over it, to one server."""
  _, plain_port = split_address(process.connection.address)
  authority = certificates / "ca.crt"
  theirs = ServerTls(certificates / "server.crt", certificates / "server.key", authority)
  ours = Tls(certificates / "client.crt", certificates / "client.key", authority)
  port = portpicker.pick_unused_port()
  with server_tunnel(theirs, port, plain_port, print), connected(Endpoint(f"localhost:{port}", tls=ours)) as over_tls:
    over_tls.wait_until_up(server.START_SECONDS)
    yield {_WITHOUT: process.connection, _WITH: over_tls}


def _rows_written(certificates: pathlib.Path, steps: int, runs: int) -> list[Figure]:
  config = adder.make_config(4 * steps)
  manifest = workload.make_manifest(config, workload.make_spec())
  episodes = adder.make_episodes(config, steps)
  with server.ServerProcess(manifest) as process, _both_ways(process, certificates) as ways:

    def contender(connection: Connection) -> Contender:
      return lambda: adder.run_adder(connection, config, manifest.codec, episodes)

    measured = interleave({way: contender(connection) for way, connection in ways.items()}, runs)
  return [Figure(f"rows, {way}", "rows/s", values["rows"]) for way, values in measured.items()]


def _updates(certificates: pathlib.Path, size: int, seconds: float, runs: int) -> list[Figure]:
  config = workload.make_config(workload.SHARES, size)
  with contextlib.ExitStack() as stack:
    manifest = workload.make_manifest(config, workload.make_spec(learner.OBSERVATION_SIZE, learner.ACTIONS))
    process = stack.enter_context(server.ServerProcess(manifest))
    sizes = {table.name: config.replay.capacity_of(table) for table in config.replay.all_tables}
    workload.fill(process.connection, workload.make_rows(manifest.codec, sum(sizes.values()), learner.ACTIONS), sizes)
    stack.enter_context(contextlib.redirect_stdout(io.StringIO()))  # A learner prints that it checkpointed.
    contenders: dict[str, Contender] = {}
    for way, connection in stack.enter_context(_both_ways(process, certificates)).items():
      directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
      made = make_learner(connection, manifest, 0, threading.Event(), directory)
      stack.callback(made.close)
      contenders[way] = learner.timed(made.step, config.learner.updates_per_block, seconds)
    measured = interleave(contenders, runs)
  return [Figure(f"updates, {way}", "updates/s", values["updates"]) for way, values in measured.items()]

"""`make test-metrics`: Debian's Prometheus scrapes a run whose processes hang, pause, die and come back.

It needs `apt-get install prometheus` and takes some five minutes. It prints a line for each thing that it tries, and exits with 1
if one of them does not hold, with 2 if the programs are missing.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

from configs import to_json
from tests.faults.fleet import START_SECONDS, CaseFailed, Fleet, environment, run, slipstream, spawn, wait_for
from tests.metrics.prometheus import Prometheus, dashboard_expressions, missing, promtool, running
from tests.metrics.world import HANG
from tests.serving import free_port

_ROOT = pathlib.Path(__file__).parents[2]
_DASHBOARD = _ROOT / "docker" / "grafana" / "slipstream.json"
_PROMETHEUS = _ROOT / "docker" / "prometheus"
_WORKERS = 2
# The worker's world may take this long for a step, after which it hangs; after twice as long its process would end.
_WORLD_SECONDS = 8.0
_SCRAPES = 50
# Expressions that must give more than zero once everything was provoked: what they count happens in this suite.
_PROVOKED = (
  "slipstream_run_restarts_total",
  "slipstream_refused_messages_total",
  "slipstream_learner_refused_rows_total",
  "slipstream_table_limiter_wait_seconds_total",
  "slipstream_snapshots_total",
  "slipstream_snapshot_failures_total",
  "slipstream_actor_wait_seconds_total",
  "slipstream_learner_wait_seconds_total",
  "slipstream_evaluator_evaluations_total",
)


class Watched:
  """A fleet whose roles have endpoints, and a Prometheus that scrapes them.

  Attributes:
    fleet: of real processes.
    ports: name of a role -> port of its endpoint.
    hang: while this file exists, the first worker's world hangs.
    prometheus: that scrapes all of them; set by `scraped`.
  """

  prometheus: Prometheus

  def __init__(self, folder: pathlib.Path):
    """Writes the config; `scraped` starts the processes."""
    self.fleet = Fleet(folder, workers=_WORKERS, environment_steps_per_update=4, checkpoint_period_seconds=30.0)
    config = self.fleet.config
    world = dataclasses.replace(config.environment, name="tests.metrics.world:Hanging", timeout_seconds=_WORLD_SECONDS)
    evaluator = dataclasses.replace(config.evaluator, period_seconds=2.0)
    (folder / "config.json").write_text(to_json(dataclasses.replace(config, environment=world, evaluator=evaluator)))
    self.hang = folder / "hang"
    self.ports = {name: free_port() for name in self.fleet.roles}
    for name, role in self.fleet.roles.items():
      role.command.append(f"--metrics_port={self.ports[name]}")
    self.fleet.roles["actor_0"].env[HANG] = str(self.hang)

  @contextlib.contextmanager
  def scraped(self) -> Iterator[None]:
    """Runs everything, and ends it."""
    try:
      self.fleet.start()
      with running(self.fleet.folder / "prometheus", list(self.ports.values()), _PROMETHEUS / "alerts.yml") as found:
        self.prometheus = found
        yield
        self.fleet.close()
    finally:
      self.fleet.kill()

  def get(self, name: str, path: str) -> tuple[int, str]:
    """What the endpoint of a role answers: the status code and the body."""
    try:
      with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}{path}", timeout=5) as answer:
        return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
      with error:
        return error.code, error.read().decode()
    except OSError as error:
      return 0, str(error)

  def is_ready(self, name: str) -> bool:
    """Whether a role says so."""
    return self.get(name, "/readyz")[0] == 200


def _scrapes_all(watched: Watched) -> str:
  ports = watched.ports
  wait_for(lambda: len(watched.prometheus.targets_up()) == len(ports), "all targets are up")
  took = watched.prometheus.value("scrape_duration_seconds")
  times = []
  for _ in range(_SCRAPES):
    began = time.monotonic()
    assert watched.get("server", "/metrics")[0] == 200
    times.append(time.monotonic() - began)
  median = 1000 * statistics.median(times)
  return f"{len(ports)} targets; the slowest scrape {1000 * took:.0f} ms, the server's median {median:.1f} ms"


def _promtool_accepts(watched: Watched) -> str:
  lines = 0
  for name in watched.ports:
    text = watched.get(name, "/metrics")[1]
    lines += len([line for line in text.splitlines() if not line.startswith("#")])
    promtool("check", "metrics", text=text)
  promtool("check", "rules", str(_PROMETHEUS / "alerts.yml"))
  promtool("check", "config", str(_PROMETHEUS / "prometheus.yml"))
  return f"{lines} samples of {len(watched.ports)} roles, the rules and the config"


def _hanging_world(watched: Watched) -> str:
  began = time.monotonic()
  watched.hang.touch()
  try:
    wait_for(lambda: watched.get("actor_0", "/healthz")[0] == 503, "the worker is not healthy")
    seconds, (_, sentence) = time.monotonic() - began, watched.get("actor_0", "/healthz")
    _require("in step of the environment" in sentence, sentence)
    _require(watched.get("actor_1", "/healthz")[0] == 200, "the other worker hangs too")
    wait_for(lambda: "SlipstreamLoopHangs" in watched.prometheus.alerts(), "an alert is pending", 5)
  finally:
    watched.hang.unlink()
  wait_for(lambda: watched.get("actor_0", "/healthz")[0] == 200, "the worker is healthy again")
  return f"503 after {seconds:.1f} s (a step may take {_WORLD_SECONDS:g}): {sentence.strip()}"


def _paused_server(watched: Watched) -> str:
  clients = [name for name in watched.ports if name != "server"]
  pid = watched.fleet.roles["server"].pid
  os.kill(pid, signal.SIGSTOP)
  try:
    took = wait_for(lambda: not any(watched.is_ready(name) for name in clients), "nobody is ready")
    slowest = 0.0
    for name in clients:
      began = time.monotonic()
      _require(watched.get(name, "/metrics")[0] == 200, f"{name} gives no metrics")
      slowest = max(slowest, time.monotonic() - began)
      _require(watched.get(name, "/healthz")[0] == 200, f"{name} counts as hung")
    sentence = watched.get("learner", "/readyz")[1].strip()
  finally:
    os.kill(pid, signal.SIGCONT)
  back = wait_for(lambda: all(watched.is_ready(name) for name in watched.ports), "all are ready again")
  return (
    f"/readyz 503 after {took:.1f} s, /healthz 200, the slowest /metrics {1000 * slowest:.0f} ms, ready again after "
    f"{back:.1f} s: {sentence}"
  )


def _killed_server(watched: Watched) -> str:
  before = watched.prometheus.value('slipstream_run_restarts_total{role="server"}')
  watched.fleet.signal(signal.SIGKILL, "server")
  wait_for(lambda: not watched.is_ready("learner"), "the learner is not ready")
  _require(watched.get("learner", "/healthz")[0] == 200, "the learner counts as hung")
  back = wait_for(lambda: all(watched.is_ready(name) for name in watched.ports), "all are ready again", START_SECONDS)
  restarts = 'slipstream_run_restarts_total{role="server"}'
  wait_for(lambda: watched.prometheus.value(restarts) > before, "the restart is counted")
  _require(watched.prometheus.value("slipstream_snapshot_timestamp_seconds") > 0, "it forgot its last snapshot")
  return f"all ready again {back:.1f} s after it came back, {restarts} from {before:g} to {before + 1:g}"


def _killed_worker(watched: Watched) -> str:
  restarts = 'slipstream_run_restarts_total{role="actor"}'
  before = watched.prometheus.value(restarts)
  watched.fleet.signal(signal.SIGKILL, "actor_1")
  seconds = wait_for(lambda: watched.prometheus.value(restarts) > before, "the restart is counted", 120)
  return f"counted after {seconds:.1f} s"


def _refusals(watched: Watched) -> str:
  run([sys.executable, "-m", "tests.faults.poison", watched.fleet.address])
  names = ("slipstream_refused_messages_total", "slipstream_learner_refused_rows_total")
  wait_for(lambda: all(watched.prometheus.value(name) > 0 for name in names), f"{names} rise", 120)
  return ", ".join(f"{name} {watched.prometheus.value(name):g}" for name in names)


def _failed_snapshot(watched: Watched) -> str:
  """A file lies where the server writes its next snapshot."""
  replay = watched.fleet.run_dir / "checkpoints" / "replay"
  staging = replay / "staging.partial"
  kept = replay.with_name("kept")
  staging.rename(kept)
  staging.write_text("")
  asked = spawn(slipstream("snapshot", f"--server={watched.fleet.address}"), environment(), subprocess.DEVNULL)
  failures = "slipstream_snapshot_failures_total"
  try:
    wait_for(lambda: watched.prometheus.value(failures) > 0, "the failure is counted")
  finally:
    staging.unlink()
    kept.rename(staging)
    asked.kill()  # It would wait for the snapshot.
    asked.wait()
  written = watched.prometheus.value("slipstream_snapshots_total")
  watched.fleet.snapshot()
  wait_for(lambda: watched.prometheus.value("slipstream_snapshots_total") > written, "a snapshot is counted")
  return f"failed {watched.prometheus.value(failures):g}, then written again"


def _dashboard(watched: Watched) -> str:
  asked = [(title, each) for title, several in dashboard_expressions(_DASHBOARD).items() for each in several]

  def without_data() -> list[str]:
    return [f"{title}: {each}" for title, each in asked if not watched.prometheus.values(each)]

  with contextlib.suppress(CaseFailed):  # A process that was just started again has no rates yet.
    wait_for(lambda: not without_data(), "all expressions give data", 60)
  empty = without_data()
  _require(not empty, "no data for " + "; ".join(empty))
  # A counter begins anew with its process, which may have died since.
  zero = [name for name in _PROVOKED if not watched.prometheus.value(f"max_over_time({name}[30m])") > 0]
  _require(not zero, f"zero although it was provoked: {zero}")
  return f"{len(asked)} expressions give data, {len(_PROVOKED)} counters more than 0"


def _status(watched: Watched) -> str:
  done = run(slipstream("status", f"--server={watched.fleet.address}"), env=environment(COLUMNS="80"))
  lines = done.stdout.splitlines()
  _require(done.returncode == 0 and len(lines) <= 24, done.stdout)
  waits = re.findall(r"waits? .*? on (?:the|its) \w+", done.stdout)
  print(done.stdout)
  return f"{len(lines)} lines; {', '.join(waits) or 'nobody waits'}"


_CASES: Mapping[str, Callable[[Watched], str]] = {
  "Prometheus scrapes every role": _scrapes_all,
  "promtool check metrics": _promtool_accepts,
  "a world that hangs": _hanging_world,
  "messages and rows that are refused": _refusals,
  "a snapshot that fails": _failed_snapshot,
  "a worker that is killed": _killed_worker,
  "a server that is paused": _paused_server,
  "a server that is killed": _killed_server,
  "slipstream status": _status,
  "every expression of the dashboard": _dashboard,
}


def _require(holds: bool, otherwise: str) -> None:
  if not holds:
    raise CaseFailed(otherwise)


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


def main() -> int:
  """Tries everything; returns the exit code."""
  signal.signal(signal.SIGTERM, _end)
  lacking = missing()
  if lacking:
    print(f"There is no {' and no '.join(lacking)} on this machine: apt-get install prometheus, and stop its service.")
    return 2
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-metrics-"))
  began, failed = time.monotonic(), 0
  watched = Watched(folder / "fleet")
  try:
    with watched.scraped():
      for name, case in _CASES.items():
        try:
          print(f"ok      {name}: {case(watched)}", flush=True)
        except CaseFailed as error:
          failed += 1
          print(f"FAILED  {name}: {error}", flush=True)
    left = watched.fleet.left()
    failed += len(left)
    print(f"{failed} failed, {time.monotonic() - began:.0f} s{'; left: ' if left else ''}{', '.join(left)}")
  finally:
    if failed:
      print(f"Logs: {folder}")
    else:
      shutil.rmtree(folder, ignore_errors=True)
  return int(bool(failed))


if __name__ == "__main__":
  sys.exit(main())

"""A learner that is paused and replaced, in real processes: policy versions only rise."""

import pathlib
import signal
import threading

from launch.endpoint import Endpoint
from launch.roles import join
from replay_server.contract import layout
from replay_server.contract.connection import Connection
from tests.launch.processes import START_SECONDS, Cli, cli, status_of, wait_for

_RUN = [
  "--config=three_rooms",
  "--config.environment.arguments.room_size=2",
  "--config.environment.arguments.time_limit=60",
  "--config.environment_steps=100000000",
  "--config.evaluator.solved_evaluations=100000",
  "--config.learner.publish_period_updates=16",
  "--config.replay.default.min_size=200",
]


def _port(server: Cli) -> str | None:
  lines = [line for line in server.output().splitlines() if line.startswith("Serving run ")]
  return lines[0].rpartition(" ")[2].rstrip(".") if lines else None


class _Versions:
  """Reads the published version again and again, until `stop`."""

  def __init__(self, connection: Connection):
    self.seen: list[int] = []
    self._stop = threading.Event()

    def read() -> None:
      while not self._stop.wait(0.05):
        columns = connection.read(layout.POLICY, "watching versions")
        if columns is not None:
          self.seen.append(int(columns[list(layout.POLICY_COLUMNS).index("version")]))

    self._thread = threading.Thread(target=read, daemon=True)
    self._thread.start()

  def stop(self) -> None:
    self._stop.set()
    self._thread.join(60)


def test_a_learner_that_was_paused_and_replaced_publishes_nothing_more(tmp_path: pathlib.Path) -> None:
  run_dir = tmp_path / "mine"
  with cli(tmp_path, "serve", "serve", *_RUN, f"--run_dir={run_dir}", "--port=0") as server:
    address = f"localhost:{wait_for(lambda: _port(server), START_SECONDS, 'the server')}"
    with (
      join(Endpoint(address), threading.Event()) as (connection, _),
      cli(tmp_path, "act", "act", f"--server={address}"),
      cli(tmp_path, "first", "learn", f"--server={address}", f"--run_root={tmp_path / 'a'}") as first,
    ):
      wait_for(lambda: status_of(run_dir)["policy_version"] > 3, START_SECONDS, "a few policies")
      versions = _Versions(connection)
      try:
        first.send(signal.SIGSTOP)
        version = status_of(run_dir)["policy_version"]
        with cli(tmp_path, "second", "learn", f"--server={address}", f"--run_root={tmp_path / 'b'}") as second:
          wait_for(lambda: status_of(run_dir)["policy_version"] > version + 3, START_SECONDS, "the second's policies")
          first.send(signal.SIGCONT)
          assert first.wait(60) == 4, first.output()
          assert f"Another learner (process {second.pid} on" in first.output()
          later = status_of(run_dir)["policy_version"]
          wait_for(
            lambda: status_of(run_dir)["policy_version"] > later + 3, START_SECONDS, "more of the second's policies"
          )
          assert status_of(run_dir)["lease"]["pid"] == second.pid
      finally:
        first.send(signal.SIGCONT)
        versions.stop()
  assert versions.seen == sorted(versions.seen)
  assert versions.seen[-1] > version + 3

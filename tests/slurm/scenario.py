"""A run's life on a Slurm cluster: what is done to it, and what is measured."""

import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from configs import RunConfig, override, to_json
from configs.presets import three_rooms
from launch.run_directory import RunDirectory
from launch.server_place import read_place
from tests.faults.fleet import ROOT, CaseFailed, slipstream
from tests.slurm.cluster import NODE_SECONDS, Cluster, Job, wait_for

_WORLD = ROOT / "tests" / "launch"  # Of slow_world.py, as a folder of a user's own.
_FILES = ROOT / "docker" / "slurm"
_PYTHONPATH = f"--pythonpath={_WORLD}"
# Imports of eleven processes on two cores take long.
_PATIENCE_SECONDS = 300.0
_SERVER_CORES = 3
_MOST_EVALUATIONS = 1_000_000
_SAMPLE_SECONDS = 8.0


def make_config() -> RunConfig:
  """A small run with slow steps, whose end the scenario decides by `evaluator.solved_evaluations`."""
  return override(
    three_rooms.get_config(),
    {
      "name": "slurm",
      "environment_steps": "100000000",
      "environment.name": "slow_world:SlowRooms",
      "environment.arguments.room_size": "2",
      "environment.arguments.time_limit": "60",
      "replay.default.min_size": "200",
      "replay.environment_steps_per_update": "4",
      "network.hidden_sizes": "(32,)",
      "actor.random_steps": "500",
      "learner.threads": "1",
      "learner.checkpoint_period_seconds": "20",
      "evaluator.period_seconds": "2",
      "evaluator.solved_evaluations": str(_MOST_EVALUATIONS),
    },
  )


@dataclasses.dataclass(frozen=True)
class Row:
  """A row of the table.

  Attributes:
    done: what was done, in words.
    steps_seconds: until all workers were there and environment steps rose; None where nothing had to.
    updates_seconds: until gradient steps rose; None where nothing had to.
    notes: anything else, in words.
  """

  done: str
  steps_seconds: float | None
  updates_seconds: float | None
  notes: str


class Scenario:
  """One run, in the order of its life: `come_up`, `scale`, `lose_node`, `reach_limit`, `preempt`, `end`."""

  def __init__(self, cluster: Cluster, has_consoles: bool = False):
    """Takes a cluster that runs nothing.

    Args:
      cluster: for the run.
      has_consoles: whether each worker and the evaluator play on consoles, which their jobs start.
    """
    self._cluster = cluster
    self._has_consoles = has_consoles
    self._run_dir = cluster.folder / "runs" / "first"
    self._config_file = cluster.folder / "config.json"
    self._config = make_config()
    self._config_file.write_text(to_json(self._config))
    self._server = ""
    self._env = {"SLIPSTREAM_DIR": str(ROOT), "SLIPSTREAM_COMMAND": " ".join(slipstream()), "SERVER_TIMEOUT": "240"}
    if has_consoles:
      self._env["SLIPSTREAM_CONSOLE"] = f"--world={self._config.environment.name} {_PYTHONPATH}"

  def _sbatch(self, *words: str) -> str:
    return self._cluster.run("sbatch", "--parsable", *words, env=self._env).strip()

  def _add_actors(self, tasks: str) -> None:
    self._sbatch(
      *(f"--array={tasks}", f"--dependency=after:{self._server}", "--mem-per-cpu=500"),
      *(str(_FILES / "actors.sbatch"), str(self._run_dir), _PYTHONPATH),
    )

  def come_up(self) -> Row:
    """Submits the server and two workers."""
    began = time.time()
    self._server = self._sbatch(
      *(f"--cpus-per-task={_SERVER_CORES}", "--mem=2000", "--time=60", "--signal=B:TERM@60"),
      *(str(_FILES / "server.sbatch"), str(self._run_dir), f"--config={self._config_file}", _PYTHONPATH),
    )
    self._add_actors("0-1")
    steps, updates = self._recovery(began, workers=2)
    return Row("submit the server and 2 actors", steps, updates, f"server on {self._job().node}{self._consoles(2)}")

  def scale(self) -> Row:
    """Adds six workers by a further array."""
    before = self._step_rate()
    began = time.time()
    self._add_actors("2-7")
    steps, updates = self._recovery(began, workers=8)
    notes = f"{before:.0f} steps/s, then {self._step_rate():.0f}{self._consoles(8)}"
    return Row("a further array: from 2 to 8 actors", steps, updates, notes)

  def lose_node(self) -> Row:
    """Kills the node with the most workers but not the server."""
    tasks = [job for job in self._jobs() if job.state == "RUNNING" and job.node != self._job().node]
    nodes = [job.node for job in tasks]
    node = max(nodes, key=nodes.count)
    lost = {f"actor_{job.id.partition('_')[2]}" for job in tasks if job.node == node}
    old = {name: role["pid"] for name, role in self._workers().items() if name in lost}
    began = time.time()
    killed = self._cluster.lose_node(node)
    wait_for(lambda: not set(old.items()) & self._alive(), _PATIENCE_SECONDS, "notice of the lost workers")
    steps, updates = self._recovery(began, workers=8)
    self._cluster.start_node(node)
    wait_for(lambda: "down" not in self._cluster.node_states().get(node, "down"), _PATIENCE_SECONDS, "node again")
    notes = f"{len(lost)} actors, {killed} processes; Slurm notices after {NODE_SECONDS} s"
    return Row(f"lose {node} without the server on it", steps, updates, notes)

  def reach_limit(self) -> Row:
    """Lets the server's job come to its time limit."""
    minutes = int((time.time() - self._started()) // 60) + 2
    self._set_limit(minutes)
    return self._leave("the server's job comes to its time limit", lambda: self._set_limit(60))

  def preempt(self) -> Row:
    """Submits a job that takes the server's node; before that, changes when the run counts as solved, for its next start."""
    streak = int(self._status()["solved_streak"])
    solved_after = {"evaluator.solved_evaluations": str(streak + 20)}
    self._config_file.write_text(to_json(override(self._config, solved_after)))
    node = self._job().node
    urgent = ["--partition=urgent", f"--nodelist={node}", "--exclusive", "--job-name=urgent", "--output=/dev/null"]
    self._sbatch(*urgent, "--wrap=sleep 30")
    return self._leave(f"a job of a higher priority takes {node}", lambda: None)

  def end(self) -> Row:
    """Waits until the run is solved and all jobs have ended.

    Raises:
      CaseFailed: one has not, or with another exit code than 0.
    """
    began = time.time()
    wait_for(lambda: self._status()["phase"] == "solved", _PATIENCE_SECONDS, "solved run")
    solved = time.time()
    wait_for(lambda: not any(job.is_queued for job in self._jobs()), _PATIENCE_SECONDS, "end of all jobs")
    ended, jobs = time.time(), self._jobs()
    others = [job for job in jobs if (job.state, job.exit_code) != ("COMPLETED", 0)]
    if others:
      raise CaseFailed(f"not all jobs have ended with 0: {others}")
    place = read_place(RunDirectory(self._run_dir))
    if place is None or not place.ended:
      raise CaseFailed(f"the run directory says {place} of its server")
    notes = f"after {solved - began:.0f} s; all {len(jobs)} jobs ended with 0 within {ended - solved:.0f} s"
    return Row("the run is solved", None, None, notes)

  def _consoles(self, workers: int) -> str:
    """How many consoles run, as a note; nothing without consoles.

    Raises:
      CaseFailed: they are not one for each worker and one for the evaluator.
    """
    running = self._cluster.count_processes("console")
    expected = workers + 1 if self._has_consoles else 0
    if running != expected:
      raise CaseFailed(f"{running} consoles run, and not {expected}")
    return f"; {running} consoles" if running else ""

  def _leave(self, done: str, when_requeued: Callable[[], None]) -> Row:
    """Waits until the server leaves and the run goes on.

    Args:
      done: what makes it leave, in words.
      when_requeued: called when its job was requeued.

    Raises:
      CaseFailed: it does not, or without a snapshot.
    """
    job, before = self._job(), self._status()
    asked = time.time()
    wait_for(lambda: self._status()["is_leaving"], _PATIENCE_SECONDS, "server that leaves")
    leaving, began = self._status(), time.time()
    wait_for(lambda: self._job().restarts > job.restarts, _PATIENCE_SECONDS, "requeued server")
    when_requeued()
    wait_for(lambda: self._status()["epoch"] != before["epoch"], _PATIENCE_SECONDS, "server again")
    again = self._status()
    if again["resumed_from"] <= before["snapshot"]:
      raise CaseFailed(f"the server has left without a snapshot: it resumed from {again['resumed_from']}")
    if again["environment_steps"] < leaving["environment_steps"]:
      raise CaseFailed(
        f"{leaving['environment_steps']} steps before, and {again['environment_steps']} after the requeue"
      )
    steps, updates = self._recovery(began, workers=8)
    notes = (
      f"TERM after {began - asked:.0f} s; snapshot {again['resumed_from']}; {leaving['environment_steps']:,} steps before, "
      f"{again['environment_steps']:,} after; from {job.node} to {self._job().node}"
    )
    return Row(done, steps, updates, notes)

  def _started(self) -> float:
    """UNIX time at which the server's job last started."""
    text = self._cluster.run("squeue", "--noheader", f"--jobs={self._server}", "--format=%S").strip()
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))

  def _set_limit(self, minutes: int) -> None:
    self._cluster.run("scontrol", "update", f"JobId={self._server}", f"TimeLimit={minutes}")

  def _jobs(self) -> list[Job]:
    """The run's."""
    return [job for job in self._cluster.jobs() if job.name.startswith("slipstream")]

  def _job(self) -> Job:
    return self._cluster.job(self._server)

  def _status(self) -> Mapping[str, Any]:
    path = self._run_dir / "status.json"
    wait_for(path.exists, _PATIENCE_SECONDS, "status")
    status: Mapping[str, Any] = json.loads(path.read_text())
    return status

  def _workers(self) -> dict[str, Mapping[str, Any]]:
    return {role["name"]: role for role in self._status()["roles"] if role["role"] == "actor" and role["alive"]}

  def _alive(self) -> set[tuple[str, int]]:
    return {(name, role["pid"]) for name, role in self._workers().items()}

  def _step_rate(self) -> float:
    """Environment steps per second, over some seconds."""
    began, steps = time.monotonic(), self._status()["environment_steps"]
    time.sleep(_SAMPLE_SECONDS)  # It is the time over which the rate is taken.
    rate: float = (self._status()["environment_steps"] - steps) / (time.monotonic() - began)
    return rate

  def _recovery(self, since: float, workers: int) -> tuple[float, float]:
    """Seconds after the UNIX time `since` until so many workers are alive and steps rise, and until gradient steps do.

    Raises:
      CaseFailed: they do not.
    """
    counts, rose = ("environment_steps", "gradient_steps"), {"environment_steps": 0.0, "gradient_steps": 0.0}
    lowest: dict[str, int] = {}

    def have_risen() -> bool:
      status = self._status()
      alive = len(self._workers())
      for count in counts:
        is_higher = count in lowest and status[count] > lowest[count]
        if not rose[count] and is_higher and (count == "gradient_steps" or alive >= workers):
          rose[count] = time.time() - since
        if count == "gradient_steps" or alive >= workers:
          lowest[count] = min(status[count], lowest.get(count, status[count]))
      return all(rose.values())

    try:
      wait_for(have_risen, _PATIENCE_SECONDS, f"progress with {workers} workers")
    except CaseFailed as error:
      raise CaseFailed(
        f"{error}: {len(self._workers())} workers, {[(job.id, job.state) for job in self._jobs()]}"
      ) from None
    return rose["environment_steps"], rose["gradient_steps"]


def write_logs(folder: pathlib.Path) -> str:
  """The end of every job's log."""
  return "\n".join(
    f"--- {log.name}:\n{log.read_text(errors='replace')[-2_000:]}" for log in sorted(folder.glob("*.log"))
  )

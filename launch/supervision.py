"""How supervised roles are started: the command and the environment of each."""

import json
import os
import pathlib
import sys
from collections.abc import Collection, Sequence

from configs.exit_codes import is_restarted
from launch import ENVIRONMENT
from launch.process_id import CLIENT, SERVER

SUPERVISOR_FILE = pathlib.Path(__file__).with_name("supervisor.py")
# After this long, a role that was asked to leave and has not is killed.
GRACE_SECONDS = 60.0
# The environment variable with changes of the arguments of `launch.supervisor.Restarts`, as JSON.
RESTARTS = "SLIPSTREAM_RESTARTS"
# Commands whose processes a fork server forks. The server and the learner would lose more than others if that died, and the
# learner has a GPU.
FORKED = ("act", "console", "evaluate")
RESTARTED_CODES = tuple(code for code in range(256) if is_restarted(code))


def supervisor_command(
  role: str,
  words: Sequence[str],
  failure_file: pathlib.Path | None = None,
  grace_seconds: float = GRACE_SECONDS,
  restarted_codes: Collection[int] = RESTARTED_CODES,
  fork_server: str = "",
) -> list[str]:
  """The command line of a role's supervisor, which this process must start itself.

  Args:
    role: its name.
    words: of the role's own command, after `slipstream`.
    failure_file: in which the role leaves the reason of a failure; None if it prints it.
    grace_seconds: after which a role that was asked to leave is killed.
    restarted_codes: exit codes after which the role is started again.
    fork_server: path of the socket of the `launch.forks.ForkServer` that forks the role, if that is one of `FORKED`; empty for
      none.
  """
  order = {
    "role": role,
    "command": [sys.executable, "-m", "slipstream", *words],
    "parent": os.getpid(),
    "parity": SERVER if "serve" in words[:1] else CLIENT,
    "fork_server": fork_server if words[:1] and words[0] in FORKED else "",
    "failure_file": "" if failure_file is None else str(failure_file),
    "grace_seconds": grace_seconds,
    "restarted_codes": list(restarted_codes),
    "restarts": json.loads(os.environ.get(RESTARTS) or "{}"),
  }
  return [sys.executable, "-I", "-S", str(SUPERVISOR_FILE), json.dumps(order)]


def role_environment(sees_gpu: bool = False) -> dict[str, str]:
  """What a role's environment has beside the launcher's.

  Args:
    sees_gpu: whether the role may use GPUs.
  """
  # The launcher's whole path, so that roles can import the same environments and events.
  path = os.pathsep.join(filter(None, sys.path))
  environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
  if not sees_gpu:
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
  return environment

"""The exit codes of all commands, in one table."""

import enum

_SIGNALLED = 128


class ExitCode(enum.IntEnum):
  """How a process of Slipstream ended, for scripts, supervisors and orchestrators.

  Attributes:
    is_restarted: whether to start the same command again.
  """

  DONE = 0
  """The run was solved, has used its budget without another goal, or was stopped by `slipstream stop`."""
  FAILED = 1
  """An unexpected error; the traceback is on standard error or in the role's log."""
  MISTAKE = 2
  """A user's mistake, which one sentence explains; the same command would make it again."""
  UNSOLVED = 3
  """The budget is used up, and the run is not solved."""
  SERVER_LOST = 4
  """The replay server stopped answering."""
  INTERRUPTED = 130
  """SIGINT, as by Ctrl-C: somebody does not want the process."""
  KILLED = 137
  """SIGKILL, as by the kernel for want of memory."""
  OUTPUT_CLOSED = 141
  """The reader of the output is gone, as with `slipstream presets | head -1`."""
  TERMINATED = 143
  """SIGTERM or SIGHUP, as by a drained node: the process has left, and the run has not ended."""

  @property
  def is_restarted(self) -> bool:
    """Whether to start the same command again."""
    return is_restarted(self)


def is_restarted(code: int) -> bool:
  """Whether to start a command again that ended with this exit code, in a shell's notation; so after any other signal."""
  if code > _SIGNALLED:
    return code not in (ExitCode.INTERRUPTED, ExitCode.OUTPUT_CLOSED)
  return code in (ExitCode.FAILED, ExitCode.SERVER_LOST)

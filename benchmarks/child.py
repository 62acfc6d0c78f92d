"""Processes that a benchmark starts, and that end when their standard input closes."""

import contextlib
import subprocess

_END_SECONDS = 10


def end(process: subprocess.Popen[str]) -> None:
  """Closes the process's standard input and waits until it has ended; kills one that does not end."""
  assert process.stdin is not None
  assert process.stdout is not None
  with contextlib.suppress(BrokenPipeError):  # It has ended already.
    process.stdin.close()
  try:
    process.wait(_END_SECONDS)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait(_END_SECONDS)
  process.stdout.close()

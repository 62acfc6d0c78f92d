"""Processes that a benchmark starts."""

import contextlib
import subprocess

_END_SECONDS = 20


def end(process: subprocess.Popen[str]) -> None:
  """Ends a process that ends when its standard input closes; kills one that does not."""
  assert process.stdin is not None
  with contextlib.suppress(BrokenPipeError):  # It has ended already.
    process.stdin.close()
  wait(process)


def wait(process: subprocess.Popen[str]) -> None:
  """Waits until a process that was told to end has ended; kills one that does not."""
  assert process.stdout is not None
  try:
    process.wait(_END_SECONDS)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait(_END_SECONDS)
  process.stdout.close()

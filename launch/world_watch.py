"""Watches the calls into worlds: a call that hangs cannot be interrupted, so another thread says so and ends the process."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator

import psutil

from configs.exit_codes import ExitCode
from environments import LateCall, late_calls

_POLL_SECONDS = 0.25


def say(sentence: str) -> None:
  """Prints a sentence for the user to standard error."""
  print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def watching_worlds(note: Callable[[str], None] = say, give_up: Callable[[str], None] = say) -> Iterator[None]:
  """Watches the calls into all worlds of this process.

  If a call lasts longer than `environment.timeout_seconds`, `note` gets a sentence. If it then lasts as long again, `give_up`
  gets another one, and the process ends with `ExitCode.MISTAKE`, together with the processes that it has started. A process
  that was stopped during a call, or got no processor, thus has that time after it goes on.

  Args:
    note: says the first sentence.
    give_up: says the last one.
  """
  ended = threading.Event()
  thread = threading.Thread(target=_watch, args=(ended, note, give_up), name="world-watch", daemon=True)
  thread.start()
  try:
    yield
  finally:
    ended.set()
    thread.join()


def _watch(ended: threading.Event, note: Callable[[str], None], give_up: Callable[[str], None]) -> None:
  noted: dict[tuple[str, float], float] = {}  # How many seconds each late call had lasted at its first sentence.
  while not ended.wait(_POLL_SECONDS):
    for late in late_calls():
      call = (late.world, late.began)
      if call not in noted:
        noted[call] = late.seconds
        note(_first_sentence(late))
      elif late.seconds > noted[call] + late.timeout_seconds:
        give_up(
          f"The environment {late.world!r} has been in {late.call} for {late.seconds:.0f} s, and environment.timeout_seconds is "
          f"{late.timeout_seconds:g}: find out what it waits for, or give it more time (0 waits for ever)."
        )
        _end_process()


def _first_sentence(late: LateCall) -> str:
  return (
    f"The environment {late.world!r} has been in {late.call} for {late.seconds:.0f} s: if that lasts "
    f"{late.timeout_seconds:g} s more, this process ends."
  )


def _end_process() -> None:
  with contextlib.suppress(psutil.Error):
    for child in psutil.Process().children(recursive=True):  # A simulator, for example.
      with contextlib.suppress(psutil.Error):
        child.kill()
  with contextlib.suppress(OSError, ValueError):
    sys.stdout.flush()
  os._exit(ExitCode.MISTAKE)

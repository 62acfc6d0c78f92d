"""What every role's process needs: it stops on request, reports failures in a sentence, and ends with its launcher."""

import faulthandler
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

from configs import ServerLost, Stopped, UserError
from launch.failures import explain
from launch.run_directory import Failure, write_failure

EXIT_UNSOLVED = 3
EXIT_SERVER_LOST = 4
# The environment variable of a worker that ends with the command that started it.
ATTACHED = "SLIPSTREAM_ATTACHED"
# How long a role may go on after its server is lost; the learner writes its checkpoint meanwhile.
_GRACE_SECONDS = 10.0
_PARENT_POLL_SECONDS = 1.0


class RoleProcess:
  """The process of one role.

  Attributes:
    name: unique in the run.
    stop: set when the role should end.
  """

  def __init__(self, name: str, stop: threading.Event, logs: pathlib.Path | None = None, verbose: bool = False):
    """Takes what the role needs; `run` runs it.

    Args:
      name: unique in the run.
      stop: set when the role should end.
      logs: folder in which the launcher looks for failures; None if there is no launcher.
      verbose: without a launcher, whether the traceback of the user's own code is shown. With one, it is in the role's log.
    """
    self.name = name
    self.stop = stop
    self._logs = logs
    self._verbose = verbose
    self._lost = ""

  def server_lost(self, sentence: str) -> None:
    """Stops the role, and ends the process if that takes too long: a call that hangs cannot be cancelled."""
    self._lost = sentence
    self._fail(sentence, EXIT_SERVER_LOST)
    self.stop.set()
    timer = threading.Timer(_GRACE_SECONDS, os._exit, [EXIT_SERVER_LOST])
    timer.daemon = True
    timer.start()
    # A call into Reverb that hangs while it holds the GIL also stops the timer's thread; faulthandler's needs no GIL.
    faulthandler.dump_traceback_later(_GRACE_SECONDS + 3, exit=True)

  def watch_parent(self) -> None:
    """Watches the parent process in the background, and stops the role when it is gone."""
    parent = os.getppid()

    def watch() -> None:
      while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
      print(f"The launcher of {self.name} is gone, so it ends.", file=sys.stderr, flush=True)
      self.stop.set()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()

  def run(self, body: Callable[[], None]) -> int:
    """Runs the role; returns its exit code. Reports a user's mistake in a sentence, any other exception with a traceback.

    If a call into a world hangs, this does not return, but ends the process (`launch.world_watch`). SIGUSR1 prints the stack of
    every thread to file descriptor 2, even while a C++ call holds the GIL.
    """
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
      from launch.world_watch import watching_worlds  # Here, so that a command's help does not load gymnasium.

      with watching_worlds(give_up=lambda sentence: self._fail(sentence, UserError.EXIT_CODE)):
        body()
    except UserError as error:
      self._fail(str(error), UserError.EXIT_CODE, error.trace)
      return UserError.EXIT_CODE
    except ServerLost as error:
      if not self._lost:
        self._fail(str(error), EXIT_SERVER_LOST)
      return EXIT_SERVER_LOST
    except Stopped:
      return EXIT_SERVER_LOST if self._lost else 0
    except Exception as error:
      traceback.print_exc()
      self._fail(f"{self.name} failed with {type(error).__name__}: {error}; see its log for the traceback.", 1)
      return 1
    return EXIT_SERVER_LOST if self._lost else 0

  def _fail(self, sentence: str, exit_code: int, trace: str = "") -> None:
    if self._logs is None:
      print(explain(sentence, trace, self._verbose), file=sys.stderr, flush=True)
    else:
      print(f"{trace}{self.name}: {sentence}", file=sys.stderr, flush=True)
      write_failure(self._logs, Failure(self.name, sentence, exit_code, trace))


def run_role(name: str, body: Callable[[RoleProcess], None], verbose: bool = False) -> int:
  """Runs a role in this process until its end or a signal; returns the exit code.

  Args:
    name: of the role, unique in the run.
    body: the role; see `launch.roles`.
    verbose: whether the traceback of the user's own code is shown, if that fails.
  """
  with stop_on_signals() as stop:
    process = RoleProcess(name, stop, verbose=verbose)
    if ATTACHED in os.environ:
      process.watch_parent()
    return process.run(lambda: body(process))


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
  """Yields an event that SIGTERM, SIGHUP and SIGINT set; a second SIGINT raises KeyboardInterrupt."""
  stop = threading.Event()

  def handle(signum: int, frame: object) -> None:
    del frame
    stop.set()
    if signum == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.default_int_handler)

  numbers = [signal.SIGTERM, signal.SIGINT]
  if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Under nohup the process outlives its terminal.
    numbers.append(signal.SIGHUP)
  before = {number: signal.signal(number, handle) for number in numbers}
  try:
    yield stop
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


@contextmanager
def output_to(path: pathlib.Path) -> Iterator[None]:
  """Redirects Python's standard output, and file descriptor 2, to which C++ libraries log, to a file.

  Python's standard error is not redirected: it is for sentences that the user should see.
  """
  with path.open("a") as log:
    terminal = os.dup(2)
    stderr = sys.stderr
    os.dup2(log.fileno(), 2)
    # A notebook's sys.stderr does not write to file descriptor 2, so it stays as it is.
    if stderr is sys.__stderr__:
      sys.stderr = open(terminal, "w", closefd=False)  # noqa: SIM115  # It stays open until the `finally` below.
    try:
      with redirect_stdout(log):
        yield
    finally:
      sys.stderr = stderr
      os.dup2(terminal, 2)
      os.close(terminal)


def exit_process(code: int) -> None:
  """Ends the process with `code`, without waiting for threads that hang in calls to a server that is gone."""
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)

"""What every role's process needs around its loop: stopping, failing with a sentence, and not outliving its launcher."""

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
from launch.run_directory import Failure, write_failure

EXIT_UNSOLVED = 3
EXIT_SERVER_LOST = 4
# In the environment of a worker that does not outlive the command that started it.
ATTACHED = "SLIPSTREAM_ATTACHED"
# From the moment the server is given up to the end of the process; the learner writes its checkpoint in it.
_LAST_WORDS_SECONDS = 10.0
_PARENT_POLL_SECONDS = 1.0


class RoleProcess:
  """The process of one role.

  Attributes:
    name: unique in the run.
    stop: set when the role should end.
  """

  def __init__(self, name: str, stop: threading.Event, logs: pathlib.Path | None = None):
    """Makes it.

    Args:
      name: unique in the run.
      stop: set when the role should end.
      logs: where a failure is left for the launcher; None where nobody launched this process.
    """
    self.name = name
    self.stop = stop
    self._logs = logs
    self._lost = ""

  def server_lost(self, sentence: str) -> None:
    """Ends the role: gives its loop a moment for its last words, then ends the process, as hung calls cannot be cancelled."""
    self._lost = sentence
    self._fail(sentence, EXIT_SERVER_LOST)
    self.stop.set()
    timer = threading.Timer(_LAST_WORDS_SECONDS, os._exit, [EXIT_SERVER_LOST])
    timer.daemon = True
    timer.start()
    # A call into Reverb that hangs while it holds Python's lock stops every Python thread; this one is not one of those.
    faulthandler.dump_traceback_later(_LAST_WORDS_SECONDS + 3, exit=True)

  def watch_parent(self) -> None:
    """Stops the role when the process that started it is gone, in the background."""
    parent = os.getppid()

    def watch() -> None:
      while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
      print(f"The launcher of {self.name} is gone, so it ends.", file=sys.stderr, flush=True)
      self.stop.set()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()

  def run(self, body: Callable[[], None]) -> int:
    """Runs the role; returns its exit code. What people can mend is one sentence, anything else a traceback.

    Meanwhile SIGUSR1 asks where each of its threads is: on file descriptor 2, even while a C++ call holds Python's lock.
    """
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
      body()
    except UserError as error:
      self._fail(str(error), UserError.EXIT_CODE)
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

  def _fail(self, sentence: str, exit_code: int) -> None:
    print(f"{self.name}: {sentence}" if self._logs else sentence, file=sys.stderr, flush=True)
    if self._logs is not None:
      write_failure(self._logs, Failure(self.name, sentence, exit_code))


def run_role(name: str, body: Callable[[RoleProcess], None]) -> int:
  """Runs a role in this process until its end or a signal; returns the exit code.

  Args:
    name: of the role, unique in the run.
    body: the role; see `launch.roles`.
  """
  with stop_on_signals() as stop:
    process = RoleProcess(name, stop)
    if ATTACHED in os.environ:
      process.watch_parent()
    return process.run(lambda: body(process))


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
  """An event that SIGTERM, SIGHUP and SIGINT set; a second SIGINT ends the process as it would have without this."""
  stop = threading.Event()

  def handle(signum: int, frame: object) -> None:
    del frame
    stop.set()
    if signum == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.default_int_handler)

  numbers = [signal.SIGTERM, signal.SIGINT]
  if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Under nohup a terminal that closes is to change nothing.
    numbers.append(signal.SIGHUP)
  before = {number: signal.signal(number, handle) for number in numbers}
  try:
    yield stop
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


@contextmanager
def output_to(path: pathlib.Path) -> Iterator[None]:
  """Sends to a file what this process prints: on Python's standard output, and what C++ libraries say on file descriptor 2.

  Python's standard error stays where it is, for sentences that people should see.
  """
  with path.open("a") as log:
    terminal = os.dup(2)
    stderr = sys.stderr
    os.dup2(log.fileno(), 2)
    # Where standard error has no descriptor of its own, as in a notebook, it is no part of this.
    if stderr is sys.__stderr__:
      sys.stderr = open(terminal, "w", closefd=False)  # noqa: SIM115
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

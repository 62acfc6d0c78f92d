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
from typing import TYPE_CHECKING

from configs import ServerLost, Stopped, UserError
from configs.errors import NoServer, RunEnded, ServerAway
from configs.exit_codes import ExitCode
from launch.failures import explain
from launch.run_directory import Failure, role_of, write_failure
from replay_server.contract.progress import Progress

if TYPE_CHECKING:
  from launch.metrics.exporter import Exporter, Probe

# How long a role waits for its server, if `--server_timeout` says nothing else.
SERVER_TIMEOUT_SECONDS = 60.0
# The environment variable with the process id of a supervised role's parent, with which the role ends: its supervisor, or the
# fork server that has forked it.
SUPERVISOR = "SLIPSTREAM_SUPERVISOR"
# The environment variable with the file for the reason why a role failed, if a launcher reads it.
FAILURE_FILE = "SLIPSTREAM_FAILURE_FILE"
# How long a role may go on after its server is lost; the learner writes its checkpoint meanwhile.
_GRACE_SECONDS = 10.0
_PARENT_POLL_SECONDS = 1.0


class StopEvent(threading.Event):
  """Set when a role should end, which it does for one reason: the first one.

  Attributes:
    signum: of the signal that asked the role to leave; 0 if there was none, or if the event had been set before.
  """

  def __init__(self) -> None:
    super().__init__()
    # A handler runs between any two instructions of the main thread, also of its `wait`. There `set` would wait for ever for the
    # lock that `wait` holds, were it not one that a thread can take twice.
    self._cond = threading.Condition(threading.RLock())
    self.signum = 0

  def leave(self, signum: int) -> None:
    """Sets the event because of a signal."""
    if not self.is_set():
      self.signum = signum
    self.set()

  @property
  def exit_code(self) -> ExitCode:
    """Of a process that ends in good order when the event is set."""
    if not self.signum:
      return ExitCode.DONE
    return ExitCode.INTERRUPTED if self.signum == signal.SIGINT else ExitCode.TERMINATED


class RoleProcess:
  """The process of one role.

  Attributes:
    name: unique in the run.
    stop: set when the role should end.
    progress: of its loop.
  """

  def __init__(self, name: str, stop: StopEvent, verbose: bool = False, exporter: "Exporter | None" = None):
    """Takes what the role needs; `run` runs it.

    Args:
      name: unique in the run.
      stop: set when the role should end.
      verbose: see `report_failure`.
      exporter: that answers for it over HTTP; None without one.
    """
    self.name = name
    self.progress = Progress() if exporter is None else exporter.progress
    self._exporter = exporter
    self.stop = stop
    self._verbose = verbose
    self._lost = ""
    self._run_ended = False

  def note_begin(self, probe: "Probe") -> None:
    """Notes that the role begins its work; from now on `probe` knows its metrics."""
    if self._exporter is not None:
      self._exporter.probe = probe

  def note_end(self) -> None:
    """Notes that the run has ended, so that a signal which came meanwhile does not matter."""
    self._run_ended = True

  def server_lost(self, sentence: str) -> None:
    """Stops the role, and ends the process if that takes too long: a call that hangs cannot be cancelled."""
    self._lost = sentence
    self._fail(sentence, ExitCode.SERVER_LOST)
    self.stop.set()
    timer = threading.Timer(_GRACE_SECONDS, os._exit, [ExitCode.SERVER_LOST])
    timer.daemon = True
    timer.start()
    # A call into Reverb that hangs while it holds the GIL also stops the timer's thread; faulthandler's needs no GIL.
    faulthandler.dump_traceback_later(_GRACE_SECONDS + 3, exit=True)

  def watch_parent(self, parent: int) -> None:
    """Watches the parent process in the background; when it is gone, the role leaves.

    Args:
      parent: its process id, from itself: it may be gone before this is called.
    """

    def watch() -> None:
      while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
      print(f"The launcher of {self.name} is gone, so it ends.", file=sys.stderr, flush=True)
      self.stop.leave(signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()

  def run(self, body: Callable[[], None]) -> ExitCode:
    """Runs the role; returns its exit code. Reports a user's mistake in a sentence, any other exception with a traceback.

    If a call into a world hangs, this does not return, but ends the process (`launch.world_watch`). SIGUSR1 prints the stack of
    every thread to file descriptor 2, even while a C++ call holds the GIL.
    """
    faulthandler.register(signal.SIGUSR1, file=2)
    try:
      from launch.world_watch import watching_worlds  # Here, so that a command's help does not load gymnasium.

      with watching_worlds(give_up=lambda sentence: self._fail(sentence, ExitCode.MISTAKE)):
        body()
    except UserError as error:
      # The address of a supervisor or of a run directory is right, so its server is away, and worth another try.
      is_away = isinstance(error, ServerAway) or (isinstance(error, NoServer) and SUPERVISOR in os.environ)
      code = ExitCode.SERVER_LOST if is_away else ExitCode.MISTAKE
      self._fail(str(error), code, error.trace)
      return code
    except ServerLost as error:
      if not self._lost:
        self._fail(str(error), ExitCode.SERVER_LOST)
      return ExitCode.SERVER_LOST
    except RunEnded as error:
      print(error, flush=True)
      return ExitCode.DONE
    except Stopped:
      pass
    except Exception as error:
      traceback.print_exc()
      self._fail(
        f"{self.name} failed with {type(error).__name__}: {error}; see its log for the traceback.", ExitCode.FAILED
      )
      return ExitCode.FAILED
    if self._lost:
      return ExitCode.SERVER_LOST
    return ExitCode.DONE if self._run_ended else self.stop.exit_code

  def _fail(self, sentence: str, exit_code: ExitCode, trace: str = "") -> None:
    report_failure(sentence, exit_code, trace, self._verbose)


def run_role(
  name: str, body: Callable[[RoleProcess], None], verbose: bool = False, exporter: "Exporter | None" = None
) -> ExitCode:
  """Runs a role in this process until its end or a signal; returns the exit code.

  Args:
    name: of the role, unique in the run.
    body: the role; see `launch.roles`.
    verbose: whether the traceback of the user's own code is shown, if that fails.
    exporter: that answers for it over HTTP; None without one.
  """
  with stop_on_signals() as stop:
    process = RoleProcess(name, stop, verbose, exporter)
    if SUPERVISOR in os.environ:
      process.watch_parent(int(os.environ[SUPERVISOR]))
    return process.run(lambda: body(process))


def report_failure(sentence: str, exit_code: ExitCode, trace: str = "", verbose: bool = False) -> None:
  """Prints why this process fails; if a launcher reads `FAILURE_FILE`, writes it there as well.

  Args:
    sentence: the reason.
    exit_code: of the process.
    trace: the traceback of the user's own code, if that is what failed; else empty.
    verbose: without a launcher, whether the traceback is shown. With one, it is in the role's log.
  """
  path = os.environ.get(FAILURE_FILE)
  if not path:
    print(explain(sentence, trace, verbose), file=sys.stderr, flush=True)
  else:
    role = role_of(pathlib.Path(path))
    print(f"{trace}{role}: {sentence}", file=sys.stderr, flush=True)
    write_failure(pathlib.Path(path), Failure(role, sentence, exit_code, trace))


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
  """Yields an event that SIGTERM, SIGHUP and SIGINT set; a second SIGINT raises KeyboardInterrupt."""
  stop = StopEvent()

  def handle(signum: int, frame: object) -> None:
    del frame
    stop.leave(signum)
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

"""Process ids that tell clients from servers.

Reverb hands its tables to a client of its own process directly. It knows one by its process id, and by a connection from a
loopback address. Two containers with one network have process ids of their own, so a client in one of them may have the id of
the server in the other: it would then read the server's pointers, and crash. So a process that serves has an even id, and every
other process that talks to a server has an odd one.
"""

import ctypes
import os
import resource
import signal

# What a process id leaves, divided by two.
SERVER = 0
CLIENT = 1

_MOST_FORKS = 10_000
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>.
_FROM_KERNEL = 128  # SI_KERNEL of <signal.h>: of a terminal.
_SIGNALLED = 128
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def take_process_id(parity: int) -> None:
  """Goes on in a process whose id divided by two leaves `parity`: in this one if it is so, and otherwise in a child.

  With a child this call returns in the child alone. The parent passes signals on, and ends as the child ends; the child does not
  outlive it. The process must have one thread.

  Args:
    parity: SERVER or CLIENT.
  """
  if os.getpid() % 2 == parity:
    return
  parent = os.getpid()
  # Pending until the parent waits for them.
  before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
  for _ in range(_MOST_FORKS):
    child = os.fork()
    if child == 0 and os.getpid() % 2 == parity:
      die_with(parent)
      signal.pthread_sigmask(signal.SIG_SETMASK, before)
      return
    if child == 0:
      os._exit(0)
    if child % 2 == parity:
      _end_like(_wait_for(child))
    os.waitpid(child, 0)
  raise RuntimeError(f"None of {_MOST_FORKS:,} processes has got an id of the kind that Slipstream needs.")


def die_with(parent: int) -> None:
  """Lets the kernel kill this process, a child of `parent`, when `parent` ends."""
  ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
  if os.getppid() != parent:  # It died before.
    os._exit(_SIGNALLED + signal.SIGKILL)


def _wait_for(child: int) -> int:
  """Passes signals on to the child until it ends; returns its wait status."""
  while True:
    received = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
    if received.si_signo == signal.SIGCHLD:
      while True:  # The first process of a container also has the children of others.
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
          return status
        if not ended:
          break
    elif received.si_code != _FROM_KERNEL:  # The terminal has signalled the child as well.
      os.kill(child, received.si_signo)


def _end_like(status: int) -> None:
  """Ends this process with the exit code, or by the signal, of another one."""
  if os.WIFSIGNALED(status):
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The child has left one, if there was to be one.
    if number != signal.SIGKILL:
      signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    # The first process of a container does not die of its own signals.
    os._exit(_SIGNALLED + number)
  os._exit(os.WEXITSTATUS(status))

"""What a process does so that its memory does not grow."""

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, sys, threading
from launch.memory import share_one_arena

if sys.argv[1] == "shared":
  share_one_arena()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)

def allocate():
  together.wait()
  for _ in range(1000):
    libc.malloc(1000)
  together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
  thread.start()
for thread in threads:
  thread.join()
libc.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_the_servers_threads_share_one_arena() -> None:
  def arenas(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True)
    return sum(line.startswith("Arena ") for line in done.stderr.splitlines())

  assert arenas("each its own") > 2
  assert arenas("shared") == 1

"""`python -m tests.faults.clock SECONDS COMMAND ...`: a `slipstream` command for which Python's wall clock is wrong.

Debian's faketime cannot be used: it also shifts the times at which waits in Reverb's C++ code end, so that even a server of
Reverb alone no longer answers.
"""

import sys
import time


def shift(seconds: float) -> None:
  """Makes `time.time` and `time.time_ns` wrong by so much; the time since the machine's start stays right.

  `datetime` is left alone, as compiled libraries check its size. Slipstream only names runs and dates snapshots with it.
  """
  right, right_ns = time.time, time.time_ns
  time.time = lambda: right() + seconds
  time.time_ns = lambda: right_ns() + int(seconds * 1e9)


if __name__ == "__main__":
  shift(float(sys.argv[1]))
  from slipstream.main import main

  main(sys.argv[2:])

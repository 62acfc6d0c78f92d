"""What `ps` shows of a process: its command line, which it may change."""

import ctypes
import pathlib

# Of a last word that gives a process room for any title; `ps` shows no more of a process that changes it.
TITLE_LENGTH = 4_000
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 47, 48  # Of /proc/PID/stat, from 0.


def set_title(words: list[str]) -> None:
  """Changes the command line that `ps` shows of this process, as far as the one it was started with has room."""
  stat = pathlib.Path("/proc/self/stat").read_text()
  # The second field is a name in parentheses, which may hold spaces.
  fields = ["", "", *stat.rpartition(") ")[2].split()]
  begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_END])
  room = end - begin
  title = " ".join(words).encode()[: room - 2]
  # To the kernel a last byte other than 0 says that the process has written a title here, which the first 0 ends.
  ctypes.memmove(begin, title.ljust(room - 1, b"\0") + b"\1", room)

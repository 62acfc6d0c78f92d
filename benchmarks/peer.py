"""A handle to a script of this folder that another Python interpreter runs, with another replay buffer."""

import pathlib
import subprocess
from collections.abc import Mapping, Sequence

from benchmarks import child
from benchmarks.measure import Contender


class Peer:
  """A process with another library's buffers; the `with` statement ends it.

  It ends when its standard input closes, so it also ends when this process dies, however that happens.
  """

  def __init__(self, python: pathlib.Path, script: str, arguments: Sequence[int], library: str):
    """Starts it and waits until its buffers are full.

    Args:
      python: an interpreter with what the script needs.
      script: name of a file in this folder.
      arguments: of the script.
      library: what it measures, in words.

    Raises:
      RuntimeError: it did not start.
    """
    # Isolated, so that it finds no module of this project by mistake.
    command = [python, "-I", pathlib.Path(__file__).with_name(script), *arguments]
    self._process = subprocess.Popen(
      [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if self._answer() != "ready":
      self.close()
      raise RuntimeError(f"{python} does not run {library}")

  def contender(self, kind: str, batch_size: int, seconds: float) -> Contender:
    """A run that draws batches for `seconds`, with new priorities where the buffer of this kind has any."""

    def run() -> Mapping[str, float]:
      assert self._process.stdin is not None
      self._process.stdin.write(f"{kind} {batch_size} {seconds}\n")
      self._process.stdin.flush()
      return {"transitions": float(self._answer())}

    return run

  def _answer(self) -> str:
    assert self._process.stdout is not None
    return self._process.stdout.readline().strip()

  def __enter__(self) -> "Peer":
    return self

  def __exit__(self, *_: object) -> None:
    self.close()

  def close(self) -> None:
    """Ends the process."""
    child.end(self._process)

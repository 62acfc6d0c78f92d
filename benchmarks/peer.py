"""A handle to `benchmarks/cpprb_peer.py`, which another Python interpreter runs."""

import pathlib
import subprocess
from collections.abc import Mapping

from benchmarks import child, workload
from benchmarks.measure import Contender

_SCRIPT = pathlib.Path(__file__).with_name("cpprb_peer.py")


class Peer:
  """A process with buffers of cpprb; the `with` statement ends it.

  It ends when its standard input closes, so it also ends when this process dies, however that happens.
  """

  def __init__(self, python: pathlib.Path, rows: int):
    """Starts it and waits until its buffers are full.

    Args:
      python: an interpreter with numpy and cpprb.
      rows: in each buffer.

    Raises:
      RuntimeError: it did not start.
    """
    # Isolated, so that it finds no module of this project by mistake.
    command = [python, "-I", _SCRIPT, rows, workload.OBSERVATION_SIZE, workload.ACTION_SIZE]
    self._process = subprocess.Popen(
      [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if self._answer() != "ready":
      self.close()
      raise RuntimeError(f"{python} does not run cpprb")

  def contender(self, kind: str, batch_size: int, seconds: float) -> Contender:
    """A run that draws batches for `seconds`; `kind` is `uniform` or `prioritized`, with new priorities."""

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

"""One process at a time holds a claim."""

import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from experiments.claims import Claim


def _take(path: pathlib.Path) -> Claim:
  claim = Claim.take(path)
  assert claim is not None
  return claim


def test_a_claim_is_one_holders_until_it_is_released(tmp_path: pathlib.Path) -> None:
  path = tmp_path / "run.claim"
  claim = _take(path)
  assert Claim.take(path) is None
  other = _take(tmp_path / "other.claim")
  claim.release()
  again = _take(path)
  again.release()
  other.release()
  assert list(tmp_path.iterdir()) == []


def test_a_process_that_inherits_a_claim_keeps_it_when_its_parent_is_gone(tmp_path: pathlib.Path) -> None:
  path = tmp_path / "run.claim"
  claim = _take(path)
  child = subprocess.Popen(
    [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[claim.descriptor]
  )
  os.close(claim.descriptor)  # As the end of this process would.
  assert Claim.take(path) is None
  child.communicate()
  _take(path).release()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_no_claim(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  path = tmp_path / "run.claim"
  first = _take(path)
  lock = fcntl.flock

  def lock_late(descriptor: int, operation: int) -> None:
    monkeypatch.setattr(fcntl, "flock", lock)
    first.release()
    _take(path)
    lock(descriptor, operation)

  monkeypatch.setattr(fcntl, "flock", lock_late)
  assert Claim.take(path) is None

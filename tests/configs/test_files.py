import subprocess
import sys
import threading

import pytest

from configs.errors import UserError
from configs.files import FileLock, LockTaken, is_locked


def test_a_lock_is_taken_when_its_holder_releases_it_within_two_seconds(tmp_path):
  path = tmp_path / "a.lock"
  held = FileLock(path, "taken")
  timer = threading.Timer(0.3, held.release)
  timer.start()
  lock = FileLock(path, "taken")
  timer.join()
  assert is_locked(path)
  lock.release()
  assert not is_locked(path)


def test_a_lock_that_stays_taken_is_refused_with_the_given_sentence(tmp_path):
  held = FileLock(tmp_path / "a.lock", "taken")
  with pytest.raises(UserError, match=r"^taken$"):
    FileLock(tmp_path / "a.lock", "taken")
  held.release()


def test_a_process_that_inherits_a_lock_keeps_it_when_its_parent_has_released_it(tmp_path):
  path = tmp_path / "a.lock"
  held = FileLock(path, "taken")
  child = subprocess.Popen(
    [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[held.descriptor]
  )
  held.release()
  with pytest.raises(LockTaken):
    FileLock(path, "taken", patience_seconds=0.0)
  child.communicate()
  FileLock(path, "taken").release()

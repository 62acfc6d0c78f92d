import threading

import pytest

from configs.errors import UserError
from configs.files import FileLock, is_locked


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

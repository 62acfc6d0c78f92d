"""Noticing that a stream gives nothing although the server could."""

import time

import pytest

from configs import ServerLost, TableSpec
from learner.sources import stall
from learner.sources.stall import ServerSilent, StallCheck
from replay_server.contract.news import ServerNews


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(stall, "STALLED_SECONDS", 0.05)


def _check_for(check: StallCheck, seconds: float) -> None:
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    check.check()


def test_a_table_that_could_give_samples_and_gives_none_is_a_lost_stream(make_config, serve) -> None:
  filled = serve(make_config([TableSpec("default", 1.0, 10, min_size=3)]))
  connection, since = filled.server.connection, time.monotonic()
  check = StallCheck(connection, lambda: ("default", since))
  filled.fill("default", range(2))
  _check_for(check, 0.3)  # The table may not be sampled yet.
  filled.fill("default", range(1))
  with pytest.raises(ServerLost, match=r"no sample of table 'default' for 0\.05 s, although it answers"):
    _check_for(check, 5)


def test_a_table_that_gives_samples_to_a_slow_stream_is_none(make_config, serve, monkeypatch) -> None:
  monkeypatch.setattr(stall, "STALLED_SECONDS", 0.3)
  filled = serve(make_config([TableSpec("default", 1.0, 10, min_size=3)]))
  connection, since = filled.server.connection, time.monotonic()
  filled.fill("default", range(5))
  check = StallCheck(connection, lambda: ("default", since))
  for _ in range(5):
    connection.read("default", "as another part of the stream does")
    _check_for(check, 0.2)
  _check_for(StallCheck(connection, lambda: None), 0.2)  # Nothing is waited for.


def test_silence_and_another_start_are_told_apart(make_config, serve) -> None:
  filled = serve(make_config([TableSpec("default", 1.0, 10)]))
  connection = filled.server.connection
  clock = [100.0]
  connection.news = ServerNews(lambda: clock[0])
  connection.news.note_answer()
  check = StallCheck(connection, lambda: None)
  check.check()
  clock[0] += 10
  with pytest.raises(ServerSilent):
    check.check()

"""When the watch of calls into worlds says its sentences, with times that no test could wait for."""

import threading

from environments import LateCall
from launch import world_watch


def test_a_call_that_is_seen_late_still_has_the_time_that_the_first_sentence_gives_it(monkeypatch):
  """As after a SIGSTOP, or on a machine that gave the process no processor: the first look comes after twice the time-out."""
  looks = iter([0.5, 5.0, 6.9, 7.1])
  ended = threading.Event()
  said: list[str] = []

  def look():
    seconds = next(looks, None)
    return [] if seconds is None or seconds < 2.0 else [LateCall("world", "reset", 3.0, seconds, 2.0)]

  monkeypatch.setattr(world_watch, "_POLL_SECONDS", 0.001)
  monkeypatch.setattr(world_watch, "late_calls", look)
  monkeypatch.setattr(world_watch, "_end_process", ended.set)
  with world_watch.watching_worlds(said.append, said.append):
    assert ended.wait(60)
  assert [sentence.split(" for ")[1].partition(" s")[0] for sentence in said] == ["5", "7"]
  assert said[0].endswith("if that lasts 2 s more, this process ends.")
  assert said[1].endswith("give it more time (0 waits for ever).")

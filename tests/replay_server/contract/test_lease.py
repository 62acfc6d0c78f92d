"""A learner's own view of its lease, under a clock that the test sets."""

import dataclasses
from types import SimpleNamespace

import pytest

from configs import TableSpec
from replay_server.contract.lease import PATIENCE_SECONDS, HeldLease
from replay_server.contract.status import Lease, RunStatus
from replay_server.process.monitor import Monitor
from tests.serving import config_of

_LIMITER = SimpleNamespace(insert_stats=SimpleNamespace(completed=0), sample_stats=SimpleNamespace(completed=0))
_TABLE = SimpleNamespace(name="default", current_size=0, max_size=1, rate_limiter_info=_LIMITER)
_STATUS = Monitor(config_of([TableSpec("default", 1.0, 1)]), "run").status({"default": _TABLE})


def _status(instance: str, beat: int) -> RunStatus:
  return dataclasses.replace(_STATUS, lease=Lease(instance, beat, "box", 7))


class _Clock:
  now = 100.0

  def __call__(self) -> float:
    return self.now


def test_it_is_held_from_the_sending_of_the_heartbeat_that_the_server_names() -> None:
  clock = _Clock()
  lease = HeldLease("me", clock)
  lease.note_sending(1)
  assert not lease.is_held
  clock.now += 3  # The heartbeat and the status were slow.
  lease.note_status(_status("me", 1))
  assert lease.is_held
  clock.now = 100 + PATIENCE_SECONDS - 1.01
  assert lease.is_held
  clock.now = 100 + PATIENCE_SECONDS - 0.99
  assert not lease.is_held


def test_an_old_status_does_not_prolong_it() -> None:
  clock = _Clock()
  lease = HeldLease("me", clock)
  for number in range(1, 4):
    lease.note_sending(number)
    clock.now += 1
  lease.note_status(_status("me", 3))
  until = 102 + PATIENCE_SECONDS - 1
  clock.now = until + 0.01
  lease.note_status(_status("me", 2))  # Read again, after a pause of this process.
  lease.note_status(_status("me", 3))
  assert not lease.is_held


@pytest.mark.parametrize("status", [_status("another", 1), dataclasses.replace(_STATUS, lease=None)])
def test_another_ones_lease_is_not_held(status: RunStatus) -> None:
  lease = HeldLease("me", _Clock())
  lease.note_sending(1)
  lease.note_status(status)
  assert not lease.is_held

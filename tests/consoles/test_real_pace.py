"""At the real pace the world goes on by itself."""

import time

import numpy as np
import pytest

from configs import UserError
from consoles.client import Console
from consoles.clock import Clock
from tests.consoles.serving import served, wait_until

RATE = 50.0


def test_ticks_come_at_the_control_rate() -> None:
  with served(pace="real", rate=20.0) as server:
    console = Console(server.address, options={"length": 1000})
    assert (console.pace, console.control_seconds) == ("real", 0.05)
    console.reset()
    began = time.monotonic()
    total = 0.0
    for _ in range(20):
      features, rewards, _, _, _ = console.step([[0.0]])
      total += rewards[0]
      assert features[0, 0] == total
    # On a busy machine some are missed, which are counted; none comes early.
    assert total == 20 + console.missed_ticks
    assert time.monotonic() - began >= (total - 1) * 0.05
    console.close()


def test_the_last_action_holds_and_missed_ticks_are_counted() -> None:
  with served(pace="real", rate=RATE) as server:
    console = Console(server.address, options={"length": 1_000_000})
    console.reset()
    first, *_ = console.step([[0.5]])
    health = console.health()
    wait_until(lambda: console.health().tick >= health.tick + 10, "the world stands still")
    features, rewards, _, _, info = console.step([[-0.5]])
    passed = features[0, 0] - first[0, 0]
    assert passed >= 11
    assert rewards.tolist() == [passed]
    assert info["action"].tolist() == [-0.5]
    # Of the ticks since the first reply, the last one had its action.
    assert console.missed_ticks >= passed - 1
    console.close()


def test_nothing_is_done_before_the_first_action() -> None:
  with served(pace="real", rate=RATE) as server:
    console = Console(server.address, num_envs=2, options={"length": 5})
    console.reset()
    # Both episodes end without an action, and the clock stands.
    wait_until(lambda: console.health().missed_ticks >= 5, "the world stands still")
    features, rewards, terminated, _, info = console.step(np.ones((2, 1)))
    assert features[:, 0].tolist() == [5, 5]
    assert rewards.tolist() == [5, 5]
    assert terminated.all()
    assert info["action"].tolist() == [0, 0]
    assert info["measures"]["steps"].tolist() == [5, 5]
    assert console.missed_ticks == 5
    console.reset(options={"reset_mask": np.ones(2, bool)})
    assert console.step(np.ones((2, 1)))[0][0, 0] >= 1
    console.close()


def test_a_car_that_ends_at_a_missed_tick_rests_while_the_others_go_on() -> None:
  with served(pace="real", rate=100.0) as server:
    console = Console(server.address, num_envs=2, options={"length": 80})
    console.reset()
    first = {"reset_mask": np.array([True, False])}
    wait_until(lambda: console.reset(options=dict(first))[0][1, 0] == 80, "the world stands still")
    features, _, terminated, _, _ = console.step(np.zeros((2, 1)))
    assert features[0, 0] < features[1, 0] == 80
    assert terminated.tolist() == [False, True]
    console.close()


def test_a_vector_world_waits_for_the_launch_of_a_car_that_ended() -> None:
  with served("vector", pace="real", rate=RATE) as server:
    console = Console(server.address, options={"length": 3})
    console.reset()
    wait_until(lambda: console.health().missed_ticks >= 6, "no tick was missed")
    features, _, terminated, _, _ = console.step(np.zeros((3, 1)))
    assert features[:, 0].tolist() == [3, 3, 3]
    assert terminated.tolist() == [True, False, False]
    console.reset(options={"reset_mask": terminated})
    assert console.step(np.zeros((3, 1)))[0][1, 0] >= 4
    console.close()


def test_a_world_that_is_too_slow_is_told_from_a_worker_that_is() -> None:
  with served(pace="real", rate=RATE, options='{"step_seconds": 0.05, "length": 1000}') as server:
    console = Console(server.address)
    console.reset()
    for _ in range(3):
      console.step([[0.0]])
    assert console.late_ticks >= 2
    console.close()


def test_a_policy_that_cannot_keep_up_is_refused_at_the_real_pace_alone() -> None:
  with served(pace="real", rate=RATE) as server, served() as patient:
    console, other = Console(server.address), Console(patient.address)
    console.check_pace(0.019)
    other.check_pace(5.0)
    with pytest.raises(UserError) as refused:
      console.check_pace(0.03)
    assert str(refused.value) == (
      f"One action takes 0.030 s, and the console at {server.address} goes on every 0.02 s: use a smaller network, fewer cars, "
      "or a console with --pace=fast."
    )
    console.close()
    other.close()


def test_a_clock_that_comes_late_leaves_ticks_out_and_keeps_its_phase() -> None:
  clock = Clock(0.1)
  assert not clock.runs
  clock.start()
  due = clock.due
  clock.advance()
  assert clock.due == pytest.approx(due + 0.1)
  clock.due = time.monotonic() - 0.25
  due = clock.due
  clock.advance()
  assert clock.late == 2
  assert clock.due == pytest.approx(due + 0.3)

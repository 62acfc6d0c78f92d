"""Evaluations by gradient steps: which policies are due, and what is passed over."""

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.evaluation_schedule import UpdateSchedule
from actors.evaluator import Evaluator
from configs import RunConfig
from replay_server.contract.policy import PolicyPublisher
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.actors.running import SPEC, make_run, snapshot
from tests.serving import serving, wait_for

_PERIOD = 500


@given(st.integers(1, 50), st.lists(st.integers(0, 40), max_size=60))
def test_every_multiple_is_taken_once_or_counted_as_passed_over(period: int, growth: list[int]) -> None:
  schedule, steps, taken, passed = UpdateSchedule(period), 0, [], 0
  for grown in growth:
    steps += grown
    if steps >= schedule.next_gradient_steps:
      passed += schedule.passes_over(steps)
      schedule.take(steps)
      taken.append(steps // period)
  assert taken == sorted(set(taken))
  assert taken[-1:] in ([], [steps // period])
  assert len(taken) + passed == (steps // period)
  assert schedule.passed_over == passed
  assert schedule.next_gradient_steps > steps


def test_a_policy_is_due_at_or_after_the_next_multiple() -> None:
  schedule = UpdateSchedule(_PERIOD)
  schedule.resume(1_499)
  assert schedule.next_gradient_steps == 1_500
  assert schedule.passes_over(1_999) == 0
  schedule.take(2_600)
  assert (schedule.next_gradient_steps, schedule.passed_over) == (3_000, 2)


def _by_updates() -> RunConfig:
  run = make_run()
  return dataclasses.replace(
    run, evaluator=dataclasses.replace(run.evaluator, schedule="updates", period_updates=_PERIOD, solved_evaluations=0)
  )


@contextlib.contextmanager
def _kept(folder: pathlib.Path) -> Iterator[tuple[ReplayServer, Keeper]]:
  with serving(_by_updates(), folder, SPEC) as server, contextlib.closing(Keeper(server, folder)) as keeper:
    yield server, keeper


def _play(server: ReplayServer, evaluator: Evaluator, *policies: tuple[int, int]) -> list[bool]:
  """Publishes policies by version and gradient steps; whether each was evaluated."""
  publisher, evaluated = PolicyPublisher(server.connection), []
  for version, steps in policies:
    publisher.publish(snapshot(version, learner_steps=steps))
    evaluated.append(evaluator.step())
  return evaluated


def test_the_first_policy_at_or_after_each_multiple_is_evaluated_also_after_a_restart(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  with _kept(tmp_path) as (server, keeper):
    evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event())
    # Before the run's status it is not known which multiples have their evaluations.
    assert _play(server, evaluator, (1, 600)) == [False]
    keeper.tick()
    assert evaluator.step()
    assert _play(server, evaluator, (2, 900), (3, 1_000), (4, 1_450), (5, 1_530)) == [False, True, False, True]
    assert _play(server, evaluator, (6, 3_100), (7, 3_200)) == [True, False]
    assert evaluator.passed_over == 2
    keeper.tick()
    another = Evaluator(server.connection, server.manifest, 0, threading.Event())
    assert _play(server, another, (8, 3_400), (9, 3_500)) == [False, True]
    status = keeper.tick()
  done = [(evaluation.gradient_steps, evaluation.passed_over) for evaluation in status.evaluations]
  assert done == [(600, 0), (1_000, 0), (1_530, 0), (3_100, 2), (3_500, 0)]
  said = capsys.readouterr().out
  assert (
    "up to policy 6, of 3,100 gradient steps, 2 multiples of evaluator.period_updates (500) got no evaluation." in said
  )


def test_an_evaluator_says_which_policy_it_waits_for(tmp_path: pathlib.Path) -> None:
  stop = threading.Event()
  with _kept(tmp_path) as (server, keeper):
    keeper.tick()
    evaluator = Evaluator(server.connection, server.manifest, 0, stop)
    thread = threading.Thread(target=evaluator.run)
    thread.start()
    try:
      PolicyPublisher(server.connection).publish(snapshot(1, learner_steps=1_040))
      wait_for(lambda: evaluator.evaluations == 1)
      wait_for(lambda: evaluator.wait is not None)
      assert evaluator.wait is not None
      assert evaluator.wait.until == "it publishes a policy of 1,500 gradient steps (1 passed over so far)"
    finally:
      stop.set()
      thread.join()


def test_an_inline_runs_loop_decides_itself(tmp_path: pathlib.Path) -> None:
  with serving(_by_updates(), tmp_path, SPEC, inline=True) as server:
    evaluator = Evaluator(server.connection, server.manifest, 0, threading.Event())
    assert _play(server, evaluator, (1, 10), (2, 20)) == [True, True]

"""The server's bookkeeping, under a clock that the test sets."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest

from configs import EvaluatorConfig, RunConfig
from replay_server.contract.lease import PATIENCE_SECONDS
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary, Heartbeat
from replay_server.contract.status import Lease, RunStatus, parse_status, status_json
from replay_server.process.monitor import FORGET_AFTER_SECONDS, Monitor
from tests.serving import make_config


class _Clock:
  def __init__(self) -> None:
    self.now = 1_000.0

  def __call__(self) -> float:
    return self.now


@pytest.fixture
def clock() -> _Clock:
  return _Clock()


def _config(**evaluator: Any) -> RunConfig:
  config = make_config({"goal": 50}, [("goal", 5)], capacity=100)
  return dataclasses.replace(
    config,
    environment_steps=1_000,
    evaluator=EvaluatorConfig(**{"solved_return": 1.0, "solved_evaluations": 3, **evaluator}),
  )


def _tables(inserted: int = 0, sampled: int = 0) -> dict[str, SimpleNamespace]:
  def table(name: str, inserted: int, capacity: int) -> SimpleNamespace:
    limiter = SimpleNamespace(
      insert_stats=SimpleNamespace(completed=inserted), sample_stats=SimpleNamespace(completed=sampled)
    )
    return SimpleNamespace(
      name=name, current_size=min(inserted, capacity), max_size=capacity, rate_limiter_info=limiter
    )

  return {"default": table("default", inserted, 100), "goal": table("goal", inserted // 10, 50)}


def _evaluation(version: int, solved: bool = True) -> EvaluationSummary:
  return EvaluationSummary(version, 10 * version, 1.5 if solved else -1.0, 20.0, solved)


def _episode(episode_return: float, length: int = 10) -> EpisodeSummary:
  return EpisodeSummary("actor_0", episode_return, length, 0, 1)


def _beat(name: str = "actor_0", role: str = "actor", ended: bool = False, **metrics: float) -> Heartbeat:
  return Heartbeat(name, role, "box", 7, "ended" if ended else "running", ended, metrics)


def test_a_run_whose_goal_does_not_end_it_goes_on_to_its_budget(clock: _Clock) -> None:
  monitor = Monitor(_config(solved_evaluations=0), "run", clock=clock)
  assert monitor.status(_tables(10)).phase == "running"
  monitor.count([_evaluation(version) for version in range(1, 9)], environment_steps=20)
  status = monitor.status(_tables(20))
  assert (status.phase, status.solved_streak, status.solved_evaluations) == ("running", 8, 0)
  assert monitor.status(_tables(1_000)).phase == "exhausted"


def test_dropped_episodes_are_summed_over_workers_and_their_lives(clock: _Clock) -> None:
  monitor = Monitor(_config(), "run", clock=clock)

  def beat(name: str, instance: str, dropped: int, open_: int, ended: bool = False) -> Heartbeat:
    metrics = {"dropped_episodes": float(dropped), "open_episodes": float(open_)}
    return dataclasses.replace(_beat(name, ended=ended), metrics=metrics, instance=instance)

  monitor.hear([beat("actor_0", "a", 2, 20), beat("actor_1", "b", 0, 1)])
  monitor.hear([beat("actor_0", "a", 3, 20)])
  status = monitor.status(_tables())
  assert status.dropped_episodes == 3
  assert {role.name: role.dropped_episodes for role in status.roles} == {"actor_0": 3, "actor_1": 0}
  # One that was killed takes its open episodes with it; one that ended does not.
  monitor.hear([beat("actor_1", "b", 0, 0, ended=True)])
  clock.now += PATIENCE_SECONDS + 1
  monitor.hear([beat("actor_0", "c", 0, 20), beat("actor_1", "d", 0, 1)])
  status = monitor.status(_tables())
  assert status.dropped_episodes == 3 + 20
  # Another server goes on with that sum: it counts what its workers drop from here on.
  resumed = Monitor(_config(), "run", parse_status(status_json(status)), clock=clock)
  resumed.hear([beat("actor_0", "c", 20, 0), beat("actor_1", "d", 1, 0)])
  assert resumed.status(_tables()).dropped_episodes == 3 + 20 + 20 + 1


def test_a_worker_that_is_back_before_it_counts_as_dead_has_dropped_its_episodes(clock: _Clock) -> None:
  monitor = Monitor(_config(), "run", clock=clock)
  first = dataclasses.replace(_beat(open_episodes=20.0), instance="a")
  monitor.hear([first])
  clock.now += 2
  monitor.hear([dataclasses.replace(first, instance="b")])
  # The first one may still live, and then the second one ends.
  assert monitor.status(_tables()).dropped_episodes == 0
  clock.now += PATIENCE_SECONDS - 1
  monitor.hear([dataclasses.replace(first, instance="b", number=2)])
  status = monitor.status(_tables())
  assert (status.dropped_episodes, [role.instance for role in status.roles]) == (20, ["b"])
  clock.now += PATIENCE_SECONDS + 1
  assert monitor.status(_tables()).dropped_episodes == 20  # Whether the second one is gone for good is not known.


def test_a_run_is_solved_by_enough_solved_evaluations_in_a_row(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.count([_evaluation(1), _evaluation(2), _evaluation(3, solved=False), _evaluation(4), _evaluation(5)], 10)
  status = monitor.status(_tables())
  assert (status.phase, status.solved_streak, status.solved_evaluations) == ("running", 2, 3)
  assert not status.finished
  # Evaluations that arrive afterwards, at once or later, do not change how the run ended.
  monitor.count([_evaluation(6), _evaluation(7, solved=False)], 20)
  status = monitor.status(_tables())
  assert (status.phase, status.solved_streak, status.finished) == ("solved", 3, True)
  monitor.count([_evaluation(8, solved=False)], 30)
  monitor.stop()
  status = monitor.status(_tables(5_000))
  assert (status.phase, status.evaluations[-1].policy_version) == ("solved", 6)


def test_a_policy_version_counts_once(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.count([_evaluation(1)] * 5 + [_evaluation(2)], 10)
  status = monitor.status(_tables())
  assert (status.phase, status.solved_streak) == ("running", 2)
  assert [evaluation.policy_version for evaluation in status.evaluations] == [1, 2]


def test_without_a_goal_evaluations_do_not_end_a_run(clock: _Clock) -> None:
  monitor = Monitor(_config(solved_return=None), "id", clock=clock)
  monitor.count([_evaluation(version) for version in range(1, 9)], 10)
  status = monitor.status(_tables())
  assert (status.phase, status.solved_evaluations) == ("running", 0)


def test_a_run_is_exhausted_at_its_budget_and_stopping_when_asked(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  assert monitor.status(_tables(999)).phase == "running"
  assert monitor.status(_tables(1_000)).phase == "exhausted"
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.stop()
  assert monitor.status(_tables(1_000)).phase == "stopping"


def test_an_evaluation_is_stamped_with_its_arrival(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  clock.now += 12.5
  monitor.count([_evaluation(3)], 450)
  (evaluation,) = monitor.status(_tables(460)).evaluations
  assert (evaluation.environment_steps, evaluation.seconds, evaluation.gradient_steps) == (450, 12.5, 30)


def test_a_silent_role_is_dead_then_forgotten_and_not_waited_for(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.hear([_beat("actor_0"), _beat("actor_1")])
  clock.now += PATIENCE_SECONDS - 1
  monitor.hear([_beat("actor_1")])
  assert monitor.roles_left() == ["actor_0", "actor_1"]
  clock.now += 2
  roles = monitor.status(_tables()).roles
  assert [(role.name, role.alive, role.seconds_since_heartbeat) for role in roles] == [
    ("actor_0", False, PATIENCE_SECONDS + 1),
    ("actor_1", True, 2),
  ]
  assert monitor.roles_left() == ["actor_1"]
  clock.now += FORGET_AFTER_SECONDS - PATIENCE_SECONDS
  assert [role.name for role in monitor.status(_tables()).roles] == ["actor_1"]


def test_a_role_that_has_ended_is_not_waited_for_and_leaves_the_list(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.hear([_beat("learner", "learner"), _beat("learner", "learner", ended=True)])
  assert monitor.roles_left() == []
  (role,) = monitor.status(_tables()).roles
  assert (role.state, role.alive) == ("ended", False)
  clock.now += PATIENCE_SECONDS + 1
  assert monitor.status(_tables()).roles == ()
  monitor.hear([_beat("learner", "learner")])  # It was started again.
  assert monitor.roles_left() == ["learner"]


def _learner(instance: str, number: int = 1, ended: bool = False) -> Heartbeat:
  return Heartbeat("learner", "learner", f"host of {instance}", 7, "learning", ended, {}, instance, number)


def test_the_lease_stays_with_its_holder_until_that_ends_or_falls_silent(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  assert monitor.status(_tables()).lease is None
  monitor.hear([_learner("a", 1), _learner("b", 1)])
  assert monitor.status(_tables()).lease == Lease("a", 1, "host of a", 7)
  for number in range(2, 20):  # However long the second one waits.
    clock.now += 1
    monitor.hear([_learner("a", number), _learner("b", number)])
    assert monitor.status(_tables()).lease == Lease("a", number, "host of a", 7)
  clock.now += PATIENCE_SECONDS - 0.1
  monitor.hear([_learner("b", 20)])
  assert monitor.status(_tables()).lease == Lease("a", 19, "host of a", 7)
  clock.now += 0.2
  assert monitor.status(_tables()).lease == Lease("b", 20, "host of b", 7)
  monitor.hear([_learner("a", 20)])  # It was paused, and comes too late.
  assert monitor.status(_tables()).lease == Lease("b", 20, "host of b", 7)
  monitor.hear([_learner("b", 21, ended=True)])
  assert monitor.status(_tables()).lease == Lease("a", 20, "host of a", 7)


def test_a_server_that_comes_back_keeps_the_lease_for_as_long_as_its_holder_may_believe_in_it(clock: _Clock) -> None:
  before = Monitor(_config(), "id", clock=clock)
  before.hear([_learner("a", 5)])
  monitor = Monitor(_config(), "id", resumed=parse_status(status_json(before.status(_tables()))), clock=clock)
  clock.now += PATIENCE_SECONDS - 0.1
  monitor.hear([_learner("b")])
  assert monitor.status(_tables()).lease == Lease("a", 5, "host of a", 7)
  clock.now += 0.2
  assert monitor.status(_tables()).lease == Lease("b", 1, "host of b", 7)


def test_every_life_of_a_role_is_counted_once_even_if_the_server_is_started_again(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.hear([_learner("a", 1), _learner("a", 2), _beat("actor_0")])
  assert monitor.status(_tables()).lives == {"server": 1, "learner": 1, "actor_0": 1}
  assert monitor.status(_tables()).restarts == 0
  again = Monitor(_config(), "id", resumed=parse_status(status_json(monitor.status(_tables()))), clock=clock)
  again.hear([_learner("a", 3), _beat("actor_0")])
  assert again.status(_tables()).lives == {"server": 2, "learner": 1, "actor_0": 1}
  again.hear([_learner("b", 1)])
  status = again.status(_tables())
  assert (status.lives["learner"], status.restarts) == (2, 2)


def test_rates_are_of_the_last_seconds(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  assert monitor.status(_tables()).environment_steps_per_second == 0
  for second in range(1, 21):
    clock.now += 1
    # 10 a second for 10 seconds, then 30.
    inserted = 10 * second + 20 * max(0, second - 10)
    monitor.hear([_beat("learner", "learner", gradient_steps=4.0 * second, policy_version=second)])
    status = monitor.status(_tables(inserted, sampled=64 * second))
    if second == 10:
      assert status.environment_steps_per_second == pytest.approx(10)
  assert status.environment_steps_per_second == pytest.approx(30)
  assert status.gradient_steps_per_second == pytest.approx(4)
  assert status.tables[0].inserts_per_second == pytest.approx(30)
  assert status.tables[1].inserts_per_second == pytest.approx(3)
  assert status.tables[0].samples_per_second == pytest.approx(64)
  assert (status.gradient_steps, status.policy_version) == (80, 20)


def test_episodes_are_counted_and_the_last_hundred_averaged(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  status = monitor.status(_tables())
  assert (status.episodes, status.recent_return, status.recent_length) == (0, None, None)
  monitor.count([*(_episode(-50.0, 90) for _ in range(50)), *(_episode(float(i), 20) for i in range(100))], 10)
  status = monitor.status(_tables())
  assert (status.episodes, status.recent_return, status.recent_length) == (150, 49.5, 20)


def test_an_evaluation_has_the_mean_of_the_training_episodes_since_the_one_before(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.count([_episode(-50.0, 90), _episode(-40.0, 70), _evaluation(1), _episode(3.0, 20)], 100)
  monitor.count([_evaluation(2), _evaluation(3)], 200)
  evaluations = monitor.status(_tables()).evaluations
  assert [evaluation.train_return for evaluation in evaluations] == [-45, 3, None]
  assert [evaluation.train_length for evaluation in evaluations] == [80, 20, None]


def _measured(**measures: float) -> EpisodeSummary:
  return dataclasses.replace(_episode(0.0), measures=measures)


def test_measures_are_averaged_over_the_episodes_that_have_them(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  assert monitor.status(_tables()).recent_measures == {}
  evaluation = dataclasses.replace(_evaluation(1), measures={"lap": 91.0})
  monitor.count([_measured(won=1.0), _measured(won=0.0, lap=93.0), _episode(0.0), evaluation], 100)
  status = monitor.status(_tables())
  assert status.recent_measures == {"won": 0.5, "lap": 93.0}
  assert status.evaluations[-1].measures == {"lap": 91.0}
  assert parse_status(status_json(status)) == status
  monitor.count([_episode(0.0)] * 99, 200)  # Of the last hundred, one has a measure.
  assert monitor.status(_tables()).recent_measures == {}


def test_a_status_keeps_the_measures_of_the_latest_evaluations_and_the_runs_first_names(clock: _Clock) -> None:
  monitor = Monitor(_config(solved_evaluations=0), "id", clock=clock)
  monitor.count([dataclasses.replace(_evaluation(i), measures={"won": float(i)}) for i in range(1, 121)], 100)
  status = monitor.status(_tables())
  assert [evaluation.measures for evaluation in status.evaluations] == [
    *({} for _ in range(20)),
    *({"won": float(i)} for i in range(21, 121)),
  ]
  resumed = Monitor(_config(), "id", resumed=status, clock=clock)
  resumed.count([_measured(**{f"m{i}": 1.0 for i in range(20)}), _measured(**{f"n{i}": 1.0 for i in range(20)})], 200)
  resumed.count([_measured(won=3.0)], 200)
  names = set(resumed.status(_tables()).recent_measures)
  assert names == {"won", *(f"m{i}" for i in range(20)), *(f"n{i}" for i in range(11))}


def test_a_status_from_before_there_were_measures_is_read(clock: _Clock) -> None:
  monitor = Monitor(_config(), "id", clock=clock)
  monitor.count([_evaluation(1)], 100)
  status = monitor.status(_tables())
  data = json.loads(status_json(status))
  del data["recent_measures"], data["evaluations"][0]["measures"]
  assert parse_status(json.dumps(data)) == status


def test_unusable_rows_are_counted_by_the_process_whose_heartbeats_name_the_writer(clock: _Clock) -> None:
  monitor = Monitor(_config(), "run", clock=clock)
  monitor.hear([_beat("actor_3", writer_0=11.0, writer_1=12.0), _beat("actor_4", writer_0=13.0)])
  counts = {"unusable_rows/11": 2.0, "unusable_rows/12": 3.0, "unusable_rows/99": 1.0}
  monitor.hear(
    [dataclasses.replace(_beat("learner", "learner"), metrics={"loss": 0.5, "unusable_rows": 6.0, **counts})]
  )
  status = monitor.status(_tables())
  assert status.unusable_rows == {"actor_3": 5, "writer 99": 1}
  assert status.learner == {"loss": 0.5, "unusable_rows": 6.0}
  assert parse_status(status_json(status)) == status


def test_a_status_lists_the_tables_in_layout_order(clock: _Clock) -> None:
  status = Monitor(_config(), "id", clock=clock).status(_tables(250))
  assert [(table.name, table.size, table.capacity, table.inserted) for table in status.tables] == [
    ("default", 100, 100, 250),
    ("goal", 25, 50, 25),
  ]
  assert (status.environment_steps, status.environment_steps_budget) == (250, 1_000)


def _ended(clock: _Clock) -> RunStatus:
  monitor = Monitor(_config(), "id", clock=clock)
  clock.now += 60
  monitor.count([_episode(1.0), _episode(2.0), _evaluation(1), _evaluation(2)], 300)
  monitor.hear([_beat("learner", "learner", gradient_steps=20.0, policy_version=2.0, loss=0.5)])
  monitor.stop()
  return monitor.status(_tables(300))


def test_a_resumed_run_continues_its_counts(clock: _Clock) -> None:
  before = _ended(clock)
  clock.now = 5.0  # Another process, another clock.
  monitor = Monitor(_config(), "id", resumed=parse_status(status_json(before)), clock=clock)
  status = monitor.status(_tables(300))
  assert status.phase == "running"
  assert (status.wall_seconds, status.episodes, status.solved_streak) == (60, 2, 2)
  assert (status.gradient_steps, status.policy_version, status.learner) == (20, 2, {"loss": 0.5})
  assert status.evaluations == before.evaluations
  assert status.roles == ()
  clock.now += 10
  monitor.count([_evaluation(2)], 310)
  assert monitor.status(_tables(310)).solved_streak == 2
  monitor.count([_evaluation(3)], 320)
  status = monitor.status(_tables(320))
  assert (status.phase, status.evaluations[-1].seconds) == ("solved", 70)


def test_the_tables_of_a_learners_own_memory_stay_as_it_last_reported_them(clock: _Clock) -> None:
  config = _config()
  config = dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="memory"))
  counts = {"size": 90.0, "inserts": 900.0, "draws": 5_000.0}
  report = {f"memory_table/default/{what}": value for what, value in counts.items()}
  monitor = Monitor(config, "id", clock=clock)
  monitor.hear([_beat("learner", "learner", False, **report, gradient_steps=10.0)])
  before = monitor.status(_tables(1_000))
  assert [(table.size, table.inserted) for table in before.tables] == [(90, 900), (0, 0)]
  # The server is started again, and hears from the learner a second later.
  again = Monitor(config, "id", resumed=parse_status(status_json(before)), clock=clock)
  assert again.status(_tables(1_000)).tables[0].size == 90
  clock.now += 1
  again.hear([_beat("learner", "learner", False, **report, gradient_steps=10.0)])
  first = again.status(_tables(1_000)).tables[0]
  clock.now += 1
  report["memory_table/default/draws"] += 64
  again.hear([_beat("learner", "learner", False, **report, gradient_steps=12.0)])
  second = again.status(_tables(1_000)).tables[0]
  assert [(table.size, table.inserted, table.inserts_per_second) for table in (first, second)] == [(90, 900, 0.0)] * 2
  assert [table.samples_per_second for table in (first, second)] == [0.0, 64.0]


def test_a_status_travels_as_json(clock: _Clock) -> None:
  status = _ended(clock)
  assert parse_status(status_json(status)) == status

"""The config of a run: every mistake is refused with one sentence when the config is built."""

import pytest

from configs import (
  ActorConfig,
  CagradConfig,
  DdqnConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  EventSpec,
  LearnerConfig,
  NafConfig,
  NetworkConfig,
  PriorityConfig,
  QrSacConfig,
  ReferConfig,
  ReplayConfig,
  RunConfig,
  TableSpec,
  Td3Config,
  UserError,
  from_json,
  override,
  to_json,
)
from configs.mixup import MixupConfig, NeighborsConfig

DEFAULT = TableSpec("default", 0.5, min_size=1)
GOAL_TABLE = TableSpec("goal", 0.5)


def goal_event(history=10, name="goal", table="goal"):
  return EventSpec(name, "worlds:goal", history, table)


def make_replay(*tables, default=DEFAULT, capacity=100, **settings):
  return ReplayConfig(capacity=capacity, default=default, tables=tables, **settings)


def test_each_role_has_its_own_arguments_over_those_of_the_environment():
  config = override(
    RunConfig(environment=EnvironmentConfig("world", {"laps": 1, "cars": 2})),
    {"actor.environment_arguments.cars": "20", "evaluator.environment_arguments": "{'laps': 3, 'pace': 'real'}"},
  )
  assert config.of_workers.environment.arguments == {"laps": 1, "cars": 20}
  assert config.of_evaluator.environment.arguments == {"laps": 3, "cars": 2, "pace": "real"}
  given = config.with_arguments("actor", {"cars": 5}).with_arguments("evaluator", {"pace": "fast"})
  assert given.of_workers.environment.arguments == {"laps": 1, "cars": 5}
  assert given.of_workers.of_workers == given.of_workers
  assert given.of_evaluator.environment.arguments == {"laps": 3, "cars": 2, "pace": "fast"}
  assert given.environment == config.environment
  assert RunConfig().of_workers == RunConfig().of_evaluator == RunConfig()
  assert from_json(to_json(given)) == given


def test_every_part_has_a_default_that_is_valid():
  assert RunConfig().replay.all_tables == (TableSpec("default", 1.0, min_size=1_000),)


def test_a_table_gets_its_share_of_the_capacity_unless_it_has_its_own():
  replay = make_replay(TableSpec("a", 0.3), TableSpec("b", 0.2, capacity=7))
  assert [replay.capacity_of(table) for table in replay.all_tables] == [50, 30, 7]


def test_a_table_holds_at_least_one_transition():
  replay = make_replay(TableSpec("a", 0.001), default=TableSpec("default", 0.999, min_size=1), capacity=10)
  assert replay.capacity_of(replay.tables[0]) == 1


def test_probabilities_may_miss_1_by_rounding():
  tables = [TableSpec(f"t{i}", 0.1) for i in range(7)]
  assert make_replay(*tables, default=TableSpec("default", 0.3, min_size=1)).tables == tuple(tables)


def test_the_longest_history_is_that_of_any_event():
  assert RunConfig().max_history == 1
  events = (goal_event(3), goal_event(8, name="other"))
  assert RunConfig(events=events, replay=make_replay(GOAL_TABLE)).max_history == 8


def test_an_event_that_is_only_watched_needs_no_table_and_no_room_for_its_history():
  watched = goal_event(10_000_000, name="seen", table=None)
  config = RunConfig(events=(goal_event(3), watched), replay=make_replay(GOAL_TABLE))
  assert config.max_history == 3
  assert RunConfig(events=(watched,), evaluator=EvaluatorConfig(solved_event="seen")).max_history == 1
  assert from_json(to_json(config)) == config


def test_an_event_that_is_only_watched_feeds_no_table():
  with pytest.raises(UserError, match=r"No event feeds table 'goal': add an event for it or remove the table\."):
    RunConfig(events=(goal_event(table=None),), replay=make_replay(GOAL_TABLE))


def test_an_evaluator_has_a_goal_when_it_has_an_event_or_a_return_to_reach():
  assert not EvaluatorConfig().has_goal
  assert EvaluatorConfig(solved_event="goal").has_goal
  assert EvaluatorConfig(solved_return=0.0).has_goal


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (lambda: EnvironmentConfig(""), r"environment\.name is empty: name an environment"),
    (
      lambda: EnvironmentConfig(potential="gap"),
      r"environment\.potential is 'gap': write it as 'module:name', for example .*AtCells', or leave it empty\.$",
    ),
    (
      lambda: EnvironmentConfig(potential_arguments={"cells": []}),
      r"environment\.potential_arguments are {'cells': \[\]}, but environment\.potential is empty: name one\.$",
    ),
    (
      lambda: EnvironmentConfig(check="last"),  # type: ignore[arg-type]  # That is the mistake.
      r"environment\.check is 'last': use one of first, always, never\.",
    ),
    (
      lambda: EnvironmentConfig(timeout_seconds=-1),
      r"environment\.timeout_seconds is -1: it must be a finite number, 0",
    ),
    (
      lambda: PriorityConfig(reliability_exponent=1.5),
      r"replay\.priority\.reliability_exponent is 1\.5: it must lie in \[0, 1\]\.$",
    ),
    (
      lambda: MixupConfig("neighbor"),  # type: ignore[arg-type]  # That is the mistake.
      r"learner\.mixup\.kind is 'neighbor': use one of none, neighbors, mixup, continuous, s4rl, noise\.$",
    ),
    (
      lambda: MixupConfig(alpha=0),
      r"learner\.mixup\.alpha is 0: it must lie in \[0\.001, 1000\]\.$",
    ),
    (
      lambda: MixupConfig(fraction=1.5),
      r"learner\.mixup\.fraction is 1\.5: it must lie in \[0, 1\]\.$",
    ),
    (
      lambda: MixupConfig(deviation=float("nan")),
      r"learner\.mixup\.deviation is nan: it must be above 0, at most 100\.$",
    ),
    (
      lambda: NeighborsConfig(count=0),
      r"learner\.mixup\.neighbors\.count is 0: it must be a whole number, 1 or more\.$",
    ),
    (
      lambda: NeighborsConfig(growth=-0.1),
      r"learner\.mixup\.neighbors\.growth is -0\.1: it must lie in \[0, 1\]\.$",
    ),
    (
      lambda: PriorityConfig(criterion="reper"),  # type: ignore[arg-type]  # That is the mistake.
      r"replay\.priority\.criterion is 'reper': use one of td_error, reaper\.$",
    ),
    (
      lambda: PriorityConfig(normalize="table"),  # type: ignore[arg-type]  # That is the mistake.
      r"replay\.priority\.normalize is 'table': use one of batch, buffer\.$",
    ),
    (
      lambda: make_replay(GOAL_TABLE, priority=PriorityConfig(criterion="reaper")),
      r"replay\.priority\.criterion is 'reaper', .*the server cannot do that: set replay\.sampling to 'memory'\.$",
    ),
    (
      lambda: make_replay(
        GOAL_TABLE,
        default=TableSpec("default", 0.5, min_size=1, selector="prioritized"),
        priority=PriorityConfig(criterion="reaper"),
        sampling="memory",
      ),
      r"table 'goal' has the selector 'uniform', which does not use it: give every table the selector 'prioritized'\.$",
    ),
    (
      lambda: make_replay(
        TableSpec("goal", 0.5, selector="ranked"),
        default=TableSpec("default", 0.5, min_size=1, selector="ranked"),
        priority=PriorityConfig(criterion="reaper"),
        sampling="memory",
      ),
      r"table 'default' has the selector 'ranked', which does not use it: give every table the selector 'prioritized'\.$",
    ),
    (
      lambda: make_replay(TableSpec("goal", 0.5, selector="ranked")),
      r"^Table 'goal' has the selector 'ranked', and the server knows no ranks: set replay\.sampling to 'memory', or use",
    ),
    (
      lambda: make_replay(
        TableSpec("goal", 0.5, selector="prioritized"),
        default=TableSpec("default", 0.5, min_size=1, selector="ranked"),
        sampling="memory",
      ),
      r"^Table 'default' has the selector 'ranked' and table 'goal' 'prioritized', .*: give both the same\.$",
    ),
    (
      lambda: PriorityConfig(ranking_period_updates=0),
      r"^replay\.priority\.ranking_period_updates is 0: it must be a whole number, 1 or more\.$",
    ),
    (
      lambda: make_replay(GOAL_TABLE, priority=PriorityConfig(normalize="buffer")),
      r"replay\.priority\.normalize is 'buffer', and only the learner's own memory knows .* or normalize to 'batch'\.$",
    ),
    (
      lambda: make_replay(GOAL_TABLE, steps_per_round=0),
      r"replay\.steps_per_round is 0: it must be a whole number, 1 or more\.$",
    ),
    (
      lambda: make_replay(GOAL_TABLE, steps_per_round=256),
      r"replay\.steps_per_round is 256, and only a learner with its own memory keeps to rounds: set replay\.sampling to",
    ),
    (
      lambda: make_replay(GOAL_TABLE, steps_per_round=256, sampling="memory", environment_steps_per_update=None),
      r"replay\.steps_per_round is 256, but replay\.environment_steps_per_update, .* is none: set it\.$",
    ),
    (
      lambda: LearnerConfig(target_update_period=0),
      r"learner\.target_update_period is 0: it must be a whole number, 1 or more\.$",
    ),
    (
      lambda: LearnerConfig(algorithm=Td3Config(), target_update_period=5),
      r"target_update_period is set, but TD3 has a period of its own: set learner\.algorithm\.target_period\.$",
    ),
    (
      lambda: DdqnConfig(td_loss="cubed"),  # type: ignore[arg-type]  # That is the mistake.
      r"learner\.algorithm\.td_loss is 'cubed': use one of squared, huber\.$",
    ),
    (lambda: make_replay(capacity=0), r"replay\.capacity is 0: it must be a whole number, 1 or more\."),
    (lambda: make_replay(checkpoint_period_seconds=-1), r"replay\.checkpoint_period_seconds is -1: it must be"),
    (lambda: make_replay(insert_tolerance_steps=0), r"replay\.insert_tolerance_steps is 0"),
    (lambda: make_replay(environment_steps_per_update=0.0), r"replay\.environment_steps_per_update is 0\.0"),
    (lambda: make_replay(environment_steps_per_update=float("inf")), r"environment_steps_per_update is inf"),
    (lambda: make_replay(GOAL_TABLE, GOAL_TABLE), r"Two tables share a name among \['default', 'goal', 'goal'\]: give"),
    (lambda: make_replay(TableSpec("policy", 0.5)), r"The table name 'policy' is reserved \(policy, run,.*rename it\."),
    (
      lambda: make_replay(TableSpec("a", 0.2)),
      r"The table probabilities sum to 0\.7, not 1 \(default 0\.5, a 0\.2\): change them\.",
    ),
    (
      lambda: make_replay(TableSpec("a", 0.5, min_size=51)),
      r"Table 'a' waits for 51 transitions but holds at most 50 \(replay\.capacity times its probability\): lower its",
    ),
    (
      lambda: NetworkConfig((8, 0)),
      r"network\.hidden_sizes has a layer of 0 units: each layer needs at least 1, and at most",
    ),
    (lambda: ActorConfig(workers=-1), r"actor\.workers is -1: it must be a whole number, 0 or more\."),
    (lambda: ActorConfig(environments=0), r"actor\.environments is 0"),
    (lambda: ActorConfig(weights_timeout_seconds=0), r"actor\.weights_timeout_seconds is 0"),
    (lambda: ActorConfig(random_steps=-1), r"actor\.random_steps is -1: it must be a whole number, 0 or more\."),
    (lambda: LearnerConfig(batch_size=0), r"learner\.batch_size is 0"),
    (
      lambda: LearnerConfig(final_learning_rate=0.1),
      r"final_learning_rate is 0\.1: it must lie between 0 and learner\.learning_rate, 0\.001\.",
    ),
    (
      lambda: LearnerConfig(learning_rate_decay_updates=7),
      r"learning_rate_decay_updates is set without learner\.final_learning_rate",
    ),
    (
      lambda: LearnerConfig(NafConfig(), final_learning_rate=0.0, refer=ReferConfig("both")),
      r"final_learning_rate is set, but ReF-ER lets the learning rate fall by learner\.refer\.annealing",
    ),
    (lambda: LearnerConfig(learning_rate=float("nan")), r"learner\.learning_rate is nan: it must be a finite number"),
    (lambda: LearnerConfig(n_step=0), r"learner\.n_step is 0"),
    (lambda: LearnerConfig(max_gradient_norm=-1.0), r"learner\.max_gradient_norm is -1\.0"),
    (lambda: LearnerConfig(updates_per_block=0), r"learner\.updates_per_block is 0"),
    (lambda: LearnerConfig(publish_period_updates=0), r"learner\.publish_period_updates is 0"),
    (lambda: LearnerConfig(checkpoint_period_seconds=0), r"learner\.checkpoint_period_seconds is 0"),
    (lambda: LearnerConfig(discount=1.01), r"learner\.discount is 1\.01: it must lie in \[0, 1\]\."),
    (lambda: LearnerConfig(target_update_rate=0), r"learner\.target_update_rate is 0: it must lie in \(0, 1\]\."),
    (lambda: EvaluatorConfig(episodes=0), r"evaluator\.episodes is 0"),
    (lambda: EvaluatorConfig(period_updates=0), r"evaluator\.period_updates is 0"),
    (
      lambda: EvaluatorConfig(solved_evaluations=-1),
      r"evaluator\.solved_evaluations is -1: it must be a whole number, 0 or",
    ),
    (
      lambda: EvaluatorConfig(solved_return=float("nan")),
      r"evaluator\.solved_return is nan: it must be a finite number",
    ),
    (lambda: EvaluatorConfig(epsilon=1.5), r"evaluator\.epsilon is 1\.5: it must lie in \[0, 1\]\."),
    (
      lambda: EvaluatorConfig(period_seconds=-1),
      r"evaluator\.period_seconds is -1: it must be a number of seconds from 0",
    ),
    (lambda: RunConfig(name="my run"), r"Run name 'my run' is not valid"),
    (lambda: RunConfig(environment_steps=0), r"^environment_steps is 0: it must be a whole number, 1 or more\.$"),
    (lambda: RunConfig(seed=-1), r"seed is -1: it must lie in \[0, 2\^31\)\."),
    (lambda: RunConfig(seed=2**31), r"seed is 2147483648"),
    (
      lambda: RunConfig(events=(goal_event(), goal_event()), replay=make_replay(GOAL_TABLE)),
      r"Two events share a name among \['goal', 'goal'\]: give each its own\.",
    ),
    (
      lambda: RunConfig(events=tuple(goal_event(name=f"e{i}") for i in range(32)), replay=make_replay(GOAL_TABLE)),
      r"There are 32 events: a run can have 31\.",
    ),
    (
      lambda: RunConfig(events=(goal_event(),)),
      r"Event 'goal' sends its history to table 'goal', which is not among replay\.tables \(none\): add the table or",
    ),
    (
      lambda: RunConfig(events=(goal_event(51),), replay=make_replay(GOAL_TABLE)),
      r"Event 'goal' has a history of 51 steps, but table 'goal' holds 50 transitions and a writer keeps at most 10000",
    ),
    (
      lambda: RunConfig(events=(goal_event(10_001),), replay=make_replay(GOAL_TABLE, capacity=10**6)),
      r"Event 'goal' has a history of 10001 steps, but .*a writer keeps at most 10000 steps: shorten the history\.",
    ),
    (
      lambda: RunConfig(replay=make_replay(GOAL_TABLE)),
      r"No event feeds table 'goal': add an event for it or remove the table\.",
    ),
    (
      lambda: RunConfig(evaluator=EvaluatorConfig(solved_event="won")),
      r"evaluator\.solved_event is 'won', which is not among the events \(none\): add it or name another\.$",
    ),
    (
      lambda: RunConfig(
        replay=make_replay(default=TableSpec("default", 1.0)), learner=LearnerConfig(batch_size=10_001)
      ),
      r"learner\.batch_size is 10001, far more than the 100 transitions of the largest table: lower it\.",
    ),
    (
      lambda: RunConfig(learner=LearnerConfig(n_step=10_001)),
      r"learner\.n_step is 10001: at most 10000 steps can be kept",
    ),
  ],
)
def test_a_mistake_is_refused_with_what_to_do(make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()


@pytest.mark.parametrize(
  ("make", "path", "most"),
  [
    (lambda value: RunConfig(environment_steps=value), "environment_steps", 2**63 - 1),
    (lambda value: make_replay(GOAL_TABLE, capacity=value), r"replay\.capacity", 2**63 - 1),
    (lambda value: make_replay(GOAL_TABLE, insert_tolerance_steps=value), r"replay\.insert_tolerance_steps", 2**63 - 1),
    (
      lambda value: make_replay(GOAL_TABLE, environment_steps_per_update=value),
      r"replay\.environment_steps_per_update",
      10**6,
    ),
    (
      lambda value: make_replay(GOAL_TABLE, checkpoint_period_seconds=value),
      r"replay\.checkpoint_period_seconds",
      10**9,
    ),
    (lambda value: PriorityConfig(importance_updates=value), r"replay\.priority\.importance_updates", 2**63 - 1),
    (lambda value: NetworkConfig((value,)), r"network\.hidden_sizes", 65_536),
    (lambda value: ActorConfig(workers=value), r"actor\.workers", 1_000),
    (lambda value: ActorConfig(environments=value), r"actor\.environments", 10_000),
    (lambda value: ActorConfig(random_steps=value), r"actor\.random_steps", 2**63 - 1),
    (lambda value: ActorConfig(policy_period_steps=value), r"actor\.policy_period_steps", 2**63 - 1),
    (lambda value: ActorConfig(weights_timeout_seconds=value), r"actor\.weights_timeout_seconds", 10**9),
    (lambda value: EvaluatorConfig(episodes=value), r"evaluator\.episodes", 2**63 - 1),
    (lambda value: EvaluatorConfig(period_updates=value), r"evaluator\.period_updates", 2**63 - 1),
    (lambda value: EvaluatorConfig(period_seconds=value), r"evaluator\.period_seconds", 10**9),
    (lambda value: EvaluatorConfig(solved_evaluations=value), r"evaluator\.solved_evaluations", 2**63 - 1),
    (lambda value: LearnerConfig(batch_size=value), r"learner\.batch_size", 2**63 - 1),
    (lambda value: LearnerConfig(n_step=value), r"learner\.n_step", 2**63 - 1),
    (lambda value: LearnerConfig(updates_per_block=value), r"learner\.updates_per_block", 2**63 - 1),
    (lambda value: LearnerConfig(publish_period_updates=value), r"learner\.publish_period_updates", 2**63 - 1),
    (lambda value: LearnerConfig(checkpoint_period_seconds=value), r"learner\.checkpoint_period_seconds", 10**9),
    (lambda value: LearnerConfig(threads=value), r"learner\.threads", 1_024),
    (lambda value: CagradConfig(0.5, 0.0, value), r"learner\.cagrad\.updates", 2**63 - 1),
    (lambda value: DdqnConfig(epsilon_decay_updates=value), r"learner\.algorithm\.epsilon_decay_updates", 2**63 - 1),
    (lambda value: QrSacConfig(quantiles=value), r"learner\.algorithm\.quantiles", 65_536),
    (lambda value: Td3Config(policy_period=value), r"learner\.algorithm\.policy_period", 2**63 - 1),
    (lambda value: Td3Config(target_period=value), r"learner\.algorithm\.target_period", 2**63 - 1),
  ],
)
def test_a_number_that_nothing_can_hold_is_refused(make, path, most):
  make(most)
  for value in (most + 1, 10**300):
    with pytest.raises(UserError, match=rf"^{path} (is|has a layer of) .*: .*\b(at most|to|from) "):
      make(value)


def test_a_block_of_more_rows_than_memory_holds_is_refused():
  sentence = (
    r"^learner\.updates_per_block is 1000000, which makes blocks of 32000000 rows, more than 10,000,000: lower it"
  )
  with pytest.raises(UserError, match=sentence):
    RunConfig(learner=LearnerConfig(updates_per_block=10**6))

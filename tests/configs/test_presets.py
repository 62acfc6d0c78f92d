"""Presets by name, and configs from files."""

import numpy as np
import pytest

from actors.policies import random_action
from configs import (
  PRESETS,
  DdqnConfig,
  QrSacConfig,
  RunConfig,
  SacConfig,
  Td3Config,
  UserError,
  load_config,
  override,
  to_json,
)
from configs.presets import two_rooms
from configs.presets.reaper import WORLDS
from environments import TwoRooms, make_event_environment

# Presets with events of high reward, and all presets with continuous actions.
MUJOCO = ["halfcheetah", "hopper", "walker2d", "humanoid", "halfcheetah_large"]
RACES = ["slingshot", "slingshot_paper", "time_trial", "time_trial_paper"]
CONTINUOUS = [
  preset for preset in PRESETS if preset not in RACES and load_config(preset).learner.algorithm.ACTIONS == "continuous"
]


@pytest.fixture
def write(tmp_path):
  def write_file(name, text):
    path = tmp_path / name
    path.write_text(text)
    return str(path)

  return write_file


def test_a_preset_is_found_by_its_name():
  assert load_config("three_rooms") == PRESETS["three_rooms"]()


def test_three_rooms_has_the_parameters_of_table_1():
  config = load_config("three_rooms")
  assert [event.history for event in config.events] == [200, 200]
  shares = {table.name: table.probability for table in config.replay.all_tables}
  assert shares == {"default": 0.5, "at_gap": 0.2, "done": 0.3}
  assert [config.replay.capacity_of(table) for table in config.replay.all_tables] == [10_000, 4_000, 6_000]
  assert config.network.hidden_sizes == (256,)
  assert (config.learner.learning_rate, config.learner.batch_size) == (1e-3, 32)
  assert (config.learner.target_update_rate, config.learner.discount) == (0.01, 0.99)
  assert (config.learner.algorithm, config.actor.workers) == (DdqnConfig(epsilon=0.3), 2)


TABLE_2 = {
  "lunar_lander_continuous": (-2, 20_000, 32, {"land_between_flags": 0.1, "land_near_middle": 0.2}),
  "halfcheetah": (-6, 1_000_000, 256, {8: 0.2, 12: 0.1, 16: 0.1}),
  "hopper": (-3, 1_000_000, 256, {2.5: 0.2, 3: 0.1, 3.5: 0.1}),
  "walker2d": (-6, 1_000_000, 256, {4: 0.2, 5: 0.1, 6: 0.05, 7: 0.05}),
  "humanoid": (-17, 1_000_000, 256, {5: 0.2, 7: 0.1, 10: 0.1}),
}


@pytest.mark.parametrize("preset", TABLE_2)
def test_the_continuous_worlds_have_the_parameters_of_table_2(preset):
  target_entropy, capacity, batch_size, shares = TABLE_2[preset]
  config = load_config(preset)
  probabilities = {table.name: table.probability for table in config.replay.tables}
  # By name for the lander, by threshold for MuJoCo.
  of_events = {event.arguments.get("above", event.name): probabilities[str(event.table)] for event in config.events}
  assert of_events == shares
  assert len(probabilities) == len(shares)
  assert config.replay.default.probability == pytest.approx(0.7 if preset == "lunar_lander_continuous" else 0.6)
  assert {event.history for event in config.events} == {200}
  assert {event.arguments.get("of", "reward") for event in config.events} == {"reward"}
  learner = config.learner
  assert (config.replay.capacity, learner.batch_size) == (capacity, batch_size)
  assert isinstance(learner.algorithm, SacConfig)
  assert (config.network.hidden_sizes, config.actor.workers) == ((256, 256), 1)
  assert (learner.learning_rate, learner.target_update_rate, learner.discount) == (3e-4, 0.005, 0.99)
  asked = learner.algorithm.target_entropy
  assert learner.algorithm == SacConfig(target_entropy=asked)
  # None is minus the dimensions of the action.
  environment = make_event_environment(config)
  (dimensions,) = environment.action_spec().shape
  environment.close()
  assert (-dimensions if asked is None else asked) == target_entropy


@pytest.mark.parametrize(("preset", "min_size"), [("lunar_lander_continuous", 500), *((p, 1_000) for p in MUJOCO)])
def test_event_tables_of_continuous_worlds_wait_until_they_hold_more_than_a_few_rows(preset, min_size):
  replay = load_config(preset).replay
  assert {table.min_size for table in replay.tables} == {min_size}
  assert min_size <= min(replay.capacity_of(table) for table in replay.tables)


@pytest.mark.parametrize("preset", CONTINUOUS)
def test_workers_of_continuous_worlds_act_with_the_newest_policy(preset):
  config = load_config(preset)
  steps_per_update = config.replay.environment_steps_per_update
  assert steps_per_update is not None
  assert config.actor.policy_period_steps == pytest.approx(config.learner.publish_period_updates * steps_per_update)


def test_workers_of_discrete_worlds_and_of_races_keep_a_policy_through_an_episode():
  reaper = {f"reaper_{world}" for world in WORLDS}  # As in their authors' library.
  for preset in set(PRESETS) - {*CONTINUOUS, "time_trial"} - reaper:
    assert load_config(preset).actor.policy_period_steps is None


@pytest.mark.parametrize(
  ("preset", "capacity", "min_size", "shares", "histories"),
  [
    ("slingshot_paper", 2_500_000, 5_000, {"slipstream": 0.1, "won": 0.1}, [100, 150]),
    ("time_trial_paper", 10_000_000, 1_024, {"re_established": 0.01}, [70]),
  ],
)
def test_the_races_have_the_parameters_of_appendix_a_3(preset, capacity, min_size, shares, histories):
  config = load_config(preset)
  replay, learner = config.replay, config.learner
  assert {table.name: table.probability for table in replay.tables} == shares
  assert {replay.capacity_of(table) / capacity for table in replay.tables} == set(shares.values())
  assert sum(replay.capacity_of(table) for table in replay.all_tables) == capacity
  assert {table.min_size for table in replay.all_tables} == {min_size}
  assert [event.history for event in config.events] == histories
  assert config.network.hidden_sizes == (2048,) * 4
  assert isinstance(learner.algorithm, QrSacConfig)
  assert (learner.learning_rate, learner.algorithm.policy_learning_rate) == (5e-5, 2.5e-5)
  assert (learner.algorithm.policy_dropout, learner.algorithm.temperature) == (0.1, 0.01)
  assert not learner.algorithm.learn_temperature
  assert (learner.batch_size, learner.discount, config.actor.workers) == (1_024, 0.9896, 20)
  # Every five epochs of 6,000 mini-batches.
  assert (config.evaluator.schedule, config.evaluator.period_updates) == ("updates", 30_000)


@pytest.mark.parametrize("name", ["slingshot", "time_trial"])
def test_a_race_for_two_cores_has_the_papers_events_shares_and_scenario(name):
  small, paper = load_config(name), load_config(f"{name}_paper")
  assert small.events == paper.events
  assert [(table.name, table.probability) for table in small.replay.all_tables] == [
    (table.name, table.probability) for table in paper.replay.all_tables
  ]
  assert small.environment.name == paper.environment.name
  assert small.actor.environments == paper.actor.environments
  # An episode of twenty cars is too long for one policy.
  assert (small.actor.policy_period_steps is None) == (name == "slingshot")
  assert small.evaluator.environment_arguments == paper.evaluator.environment_arguments
  assert small.learner.discount == paper.learner.discount


def test_every_event_and_table_of_a_preset_can_be_reached_by_its_name():
  for preset in PRESETS:
    config = load_config(preset)
    for event in config.events:
      changed = override(config, {f"events.{event.name}.history": "7", f"replay.tables.{event.table}.min_size": "3"})
      assert next(found for found in changed.events if found.name == event.name).history == 7
      assert next(found for found in changed.replay.tables if found.name == event.table).min_size == 3


# Replay ratio, L2 of the policy and gradient norm of NMER's Tables 8 to 18, from the bold rows of uniform replay.
NMER = {
  ("sac", "ant"): (5, 1e-3, None),
  ("sac", "halfcheetah"): (5, 1e-3, None),
  ("sac", "hopper"): (5, 1e-3, 40),
  ("sac", "swimmer"): (20, 1e-4, None),
  ("sac", "walker2d"): (5, 1e-2, None),
  ("td3", "ant"): (1, 0, None),
  ("td3", "halfcheetah"): (1, 0, None),
  ("td3", "hopper"): (20, 0, None),
  ("td3", "swimmer"): (20, 0, None),
  ("td3", "walker2d"): (1, 0, None),
  ("td3", "humanoid"): (5, 0, None),
}


@pytest.mark.parametrize(("algorithm", "world"), NMER)
def test_nmers_worlds_have_the_parameters_of_its_tables_4_to_6(algorithm, world):
  config = load_config(f"nmer_{algorithm}_{world}")
  learner, replay = config.learner, config.replay
  assert config.environment.name.lower() == f"{world}-v5"
  assert config.environment_steps == 200_000
  updates_per_step, policy_l2, max_gradient_norm = NMER[algorithm, world]
  assert replay.environment_steps_per_update == pytest.approx(1 / updates_per_step)
  assert learner.max_gradient_norm == max_gradient_norm
  assert (replay.capacity, replay.tables, replay.default.selector) == (1_000_000, (), "uniform")
  assert (learner.target_update_rate, learner.discount, learner.n_step) == (0.005, 0.99, 1)
  if algorithm == "sac":
    assert (learner.learning_rate, learner.batch_size, config.network.hidden_sizes) == (3e-3, 256, (256, 256))
    assert learner.algorithm == SacConfig(
      policy_l2=policy_l2, temperature=1.0, learn_temperature=True, target_entropy=None
    )
  else:
    assert (learner.learning_rate, learner.batch_size, config.network.hidden_sizes) == (5e-4, 100, (400, 300))
    assert learner.algorithm == Td3Config(
      policy_l2=policy_l2,
      action_noise=0.1,
      policy_period=2,
      target_period=1,
      target_noise=0.2,
      target_noise_clip=0.5,
    )
    assert config.actor.random_steps == 10_000
  priority = replay.priority
  assert (priority.exponent, priority.epsilon) == (0.6, 1e-6)
  assert [priority.importance_exponent_at(updates) for updates in (0, 10_000, 100_000)] == [0.4, 0.4, 0.4]


# The bold rows of the other buffers: PER and CT, replay ratio and what else a row gives; NMER with k before it.
NMER_ROWS = {
  ("sac", "ant"): ((1, 1e-3, None), (5, 1e-3, None), 25, (20, 2e-3, None)),
  ("sac", "halfcheetah"): ((5, 5e-4, None), (20, 1e-3, None), 10, (20, 1e-3, None)),
  ("sac", "hopper"): ((5, 1e-2, None), (20, 5e-3, 40), 10, (20, 1e-2, 40)),
  ("sac", "swimmer"): ((20, 1e-4, None), (20, 5e-4, None), 25, (20, 1e-4, None)),
  ("sac", "walker2d"): ((1, 1e-2, None), (20, 1e-2, None), 10, (20, 1e-2, None)),
  ("td3", "ant"): ((1, 0, None), (1, 0, None), 25, (20, 0, None)),
  ("td3", "halfcheetah"): ((5, 0, None), (20, 0, None), 10, (20, 0, None)),
  ("td3", "hopper"): ((5, 0, None), (5, 0, None), 10, (20, 0, None)),
  ("td3", "swimmer"): ((20, 0, None), (20, 0, None), 10, (20, 0, None)),
  ("td3", "walker2d"): ((5, 0, None), (5, 0, None), 10, (20, 0, None)),
  ("td3", "humanoid"): ((1, 0, None), (5, 0, None), 10, (20, 0, None)),
}


@pytest.mark.parametrize(("algorithm", "world"), NMER)
def test_nmers_buffers_have_their_best_rows_of_tables_8_to_18(algorithm, world):
  per, ct, neighbors, nmer = NMER_ROWS[algorithm, world]
  base = load_config(f"nmer_{algorithm}_{world}")
  for method, row in (("per", per), ("ct", ct), ("nmer", nmer)):
    config = load_config(f"nmer_{algorithm}_{world}_{method}")
    learner = config.learner
    assert config.method == method
    assert isinstance(learner.algorithm, (SacConfig, Td3Config))
    assert config.replay.environment_steps_per_update == pytest.approx(1 / row[0])
    assert (learner.algorithm.policy_l2, learner.max_gradient_norm) == row[1:]
    assert (config.environment, config.network, config.actor.random_steps) == (
      base.environment,
      base.network,
      base.actor.random_steps,
    )
  assert config.learner.mixup.neighbors.count == neighbors


def test_every_experiment_of_nmer_is_a_preset():
  names = {f"nmer_{a}_{w}{buffer}" for a, w in NMER for buffer in ("", "_per", "_ct", "_nmer")}
  assert {preset for preset in PRESETS if preset.startswith("nmer")} == names


def test_the_large_preset_has_the_learner_of_the_racing_experiments():
  config = load_config("halfcheetah_large")
  learner = config.learner
  assert config.network.hidden_sizes == (2048,) * 4
  assert (learner.batch_size, learner.learning_rate, learner.discount) == (1024, 5e-5, 0.9896)
  assert learner.algorithm == QrSacConfig(
    policy_learning_rate=2.5e-5, policy_dropout=0.1, temperature=0.01, learn_temperature=False
  )


def test_two_rooms_has_the_parameters_of_section_5_3():
  config = load_config("two_rooms")
  assert {event.name: event.history for event in config.events} == {"at_gap": 30, "done": 30}
  assert {table.name: table.probability for table in config.replay.all_tables} == {
    "default": 0.7,
    "at_gap": 0.15,
    "done": 0.15,
  }


@pytest.mark.parametrize(
  ("events", "names"),
  [
    ("gap_goal", ["at_gap", "done"]),
    ("only_goal", ["done"]),
    ("near_goal", ["near_goal"]),
    ("only_gap", ["at_gap"]),
    ("near_initial", ["near_initial"]),
  ],
)
@pytest.mark.parametrize("default_probability", [0.1, 0.3, 0.7, 0.9])
def test_the_event_tables_of_the_two_rooms_divide_the_share_that_the_default_leaves(events, names, default_probability):
  config = two_rooms.get_config(events, default_probability)
  assert [event.name for event in config.events] == names
  assert config.replay.default.probability == default_probability
  share = (1 - default_probability) / len(names)
  assert [table.probability for table in config.replay.tables] == pytest.approx([share] * len(names))
  env = make_event_environment(config, seed=0)
  env.reset()
  assert isinstance(env.gym_env, TwoRooms)
  fired = 0
  for action in env.gym_env.shortest_path():
    fired |= env.step(action).events
  assert fired == 2 ** len(names) - 1


def test_the_two_rooms_are_solved_by_the_last_step_in_time_and_not_by_a_failure():
  config = two_rooms.get_config()
  limit = config.environment.arguments["time_limit"]
  assert -0.1 * limit < config.evaluator.solved_return <= 1 - 0.1 * (limit - 1)


def test_events_that_the_two_rooms_do_not_have_are_refused():
  with pytest.raises(UserError, match=r"two_rooms has no events 'gap_gaol': did you mean 'gap_goal'\?"):
    two_rooms.get_config("gap_gaol")
  with pytest.raises(UserError, match=r"has no events 'x': use one of gap_goal, only_goal, near_goal, only_gap, near_"):
    two_rooms.get_config("x")


def test_the_obstacle_course_has_the_parameters_of_table_1():
  config = load_config("obstacle_course")
  assert {event.history for event in config.events} == {50}
  shares = {table.name: table.probability for table in config.replay.all_tables}
  assert shares == {
    "default": 0.5,
    "at_spike": 0.1,
    "at_lava": 0.0625,
    "at_gap": 0.0625,
    "pickup_key": 0.0625,
    "at_door": 0.1125,
    "done": 0.1,
  }
  assert [event.name for event in config.events] == list(shares)[1:]
  capacities = [50_000, 10_000, 6_250, 6_250, 6_250, 11_250, 10_000]
  assert [config.replay.capacity_of(table) for table in config.replay.all_tables] == capacities
  assert config.network.hidden_sizes == (256, 256)
  assert (config.learner.learning_rate, config.learner.batch_size) == (5e-4, 32)
  assert (config.learner.target_update_rate, config.learner.discount) == (0.01, 0.99)
  assert (config.learner.algorithm, config.actor.workers) == (DdqnConfig(epsilon=0.3), 2)


def test_the_obstacle_course_has_the_setting_in_which_uniform_replay_learns_too():
  course = load_config("obstacle_course").environment
  assert course.arguments == {"doors": 1, "keys": 1, "time_limit": 600}


def test_the_randomised_skills_have_the_parameters_of_the_course_without_spikes():
  config, course = load_config("randomised_skills"), load_config("obstacle_course")
  shares, course_shares = ({t.name: t.probability for t in c.replay.all_tables} for c in (config, course))
  assert shares == {
    "default": pytest.approx(0.6),
    **{name: share for name, share in course_shares.items() if name not in ("default", "at_spike")},
  }
  assert (config.learner, config.network, config.actor) == (course.learner, course.network, course.actor)
  assert config.replay.capacity == 100_000
  assert {event.history for event in config.events} == {50}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_events_of_a_preset_fit_its_world(preset):
  env = make_event_environment(load_config(preset), seed=1)
  rng = np.random.default_rng(0)
  env.reset()
  for _ in range(20):
    env.step(random_action(env.action_spec(), rng))


def test_a_python_file_gives_its_get_config(write):
  path = write("mine.py", "from configs import RunConfig\n\ndef get_config():\n  return RunConfig(seed=4)\n")
  assert load_config(path) == RunConfig(seed=4)


def test_a_json_file_gives_its_config(write):
  config = RunConfig(seed=4)
  assert load_config(write("mine.json", to_json(config))) == config


@pytest.mark.parametrize("preset", ["three_rooms", "two_rooms", "obstacle_course", "randomised_skills"])
def test_the_file_of_a_preset_gives_the_preset(preset):
  assert load_config(f"configs/presets/{preset}.py") == load_config(preset)


@pytest.mark.parametrize(
  ("name", "sentence"),
  [
    ("three_room", r"There is no preset 'three_room': did you mean 'three_rooms'\?$"),
    ("qqqqqqqqqqq", r"There is no preset 'qqqqqqqqqqq': see 'slipstream presets', or name a file that ends in \.py or"),
    (
      "missing.py",
      r"There is no config file missing\.py: check the path, or name a preset \(see 'slipstream presets'\)",
    ),
    ("missing.json", r"There is no config file missing\.json: check"),
    ("Makefile", r"The config file Makefile is neither Python nor JSON by its name: let it end in \.py or \.json\."),
  ],
)
def test_a_name_without_a_config_is_refused(name, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(name)


@pytest.mark.parametrize(
  ("text", "sentence"),
  [
    ("def get_config(:", r"The config file .*mine\.py cannot be run \(SyntaxError: "),
    ("1 / 0", r"The config file .*mine\.py cannot be run \(ZeroDivisionError: division by zero\): fix it\."),
    (
      "CONFIG = 3",
      r"The config file .*mine\.py has no function get_config\(\): add one that returns a slipstream\.RunConfig",
    ),
    (
      "def get_config():\n  return 3",
      r"get_config\(\) of .*mine\.py returned 3: it must return a slipstream\.RunConfig",
    ),
    ("from configs import RunConfig\nRunConfig(seed=-1)", r"^seed is -1: it must lie in"),
    ("from configs import RunConfig\n\ndef get_config():\n  return RunConfig(seed=-1)", r"^seed is -1: it must lie in"),
  ],
)
def test_a_python_file_that_gives_no_config_is_refused(write, text, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(write("mine.py", text))


@pytest.mark.parametrize(
  ("text", "sentence"), [("{", "is not JSON"), ("[]", "not a JSON object"), ('{"sed": 1}', "'seed'")]
)
def test_a_json_file_that_gives_no_config_is_refused(write, text, sentence):
  with pytest.raises(UserError, match=sentence):
    load_config(write("mine.json", text))

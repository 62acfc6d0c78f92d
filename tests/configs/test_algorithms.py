"""The union of algorithms: what each member checks, its form in JSON and on the command line, and how workers explore."""

import dataclasses
import json

import numpy as np
import pytest
from acme import specs

from configs import (
  DdpgConfig,
  DdqnConfig,
  LearnerConfig,
  NafConfig,
  NetworkConfig,
  QrSacConfig,
  RunConfig,
  SacConfig,
  Td3Config,
  UserError,
  from_json,
  override,
  to_dict,
  to_json,
  without_defaults,
)
from configs.algorithms import ALGORITHMS, AlgorithmConfig
from networks import flatten_weights, make_acting_policy, make_policy


def run_with(algorithm: AlgorithmConfig) -> RunConfig:
  return RunConfig(learner=LearnerConfig(algorithm=algorithm))


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (250, 0.775), (500, 0.55), (1_000, 0.1), (9_999, 0.1)])
def test_epsilon_falls_linearly_with_the_gradient_steps_and_then_stays_constant(steps, epsilon):
  config = DdqnConfig(epsilon=1.0, final_epsilon=0.1, epsilon_decay_updates=1_000)
  assert config.epsilon_at(0, steps) == pytest.approx(epsilon)


def test_epsilon_without_a_final_value_stays_constant():
  assert DdqnConfig(epsilon=0.3).epsilon_at(5, 10**9) == 0.3


def test_workers_take_their_own_epsilons_in_turn():
  config = DdqnConfig(epsilon=0.3, final_epsilon=0.0, worker_epsilons=(0.5, 0.25, 0.125))
  assert [config.epsilon_at(worker, 10_000) for worker in range(4)] == [0.5, 0.25, 0.125, 0.5]


@pytest.mark.parametrize("name", ["sac", "qr_sac", "td3", "ddpg", "naf"])
def test_policies_with_noise_of_their_own_take_no_random_actions(name):
  assert ALGORITHMS[name]().epsilon_at(0, 0) == 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_needs_more_of_a_row_than_the_transition(name):
  assert ALGORITHMS[name]().row_fields((2,)) == {}


@pytest.mark.parametrize(
  ("make", "sentence"),
  [
    (
      lambda: LearnerConfig(algorithm="sac"),  # type: ignore[arg-type]  # The mistake.
      r"learner\.algorithm is 'sac': give it a DdqnConfig or SacConfig or ",
    ),
    (lambda: LearnerConfig(algorithm=AlgorithmConfig()), r"learner\.algorithm is AlgorithmConfig\(\): give it a Ddqn"),
    (lambda: DdqnConfig(epsilon_decay_updates=0), r"learner\.algorithm\.epsilon_decay_updates is 0"),
    (lambda: DdqnConfig(epsilon=1.5), r"An epsilon of learner\.algorithm is 1\.5: it is a probability, from 0 to 1\."),
    (lambda: DdqnConfig(final_epsilon=-0.1), r"An epsilon of learner\.algorithm is -0\.1"),
    (lambda: DdqnConfig(worker_epsilons=(0.1, 2.0)), r"An epsilon of learner\.algorithm is 2\.0"),
    (lambda: SacConfig(policy_learning_rate=0.0), r"learner\.algorithm\.policy_learning_rate is 0\.0"),
    (
      lambda: Td3Config(policy_l2=-1.0),
      r"learner\.algorithm\.policy_l2 is -1\.0: it must be a finite number, 0 or more",
    ),
    (lambda: SacConfig(policy_dropout=1.0), r"learner\.algorithm\.policy_dropout is 1\.0: it must lie in \[0, 1\)\."),
    (lambda: SacConfig(temperature=0.0), r"learner\.algorithm\.temperature is 0\.0"),
    (lambda: QrSacConfig(temperature=0.0), r"learner\.algorithm\.temperature is 0\.0"),
    (lambda: SacConfig(target_entropy=float("nan")), r"learner\.algorithm\.target_entropy is nan"),
    (
      lambda: SacConfig(learn_temperature=False, target_entropy=-2.0),
      r"learner\.algorithm\.target_entropy is -2\.0, but only a learned temperature .* uses it: set it to none",
    ),
    (lambda: QrSacConfig(quantiles=0), r"learner\.algorithm\.quantiles is 0"),
    (lambda: QrSacConfig(kappa=-1.0), r"learner\.algorithm\.kappa is -1\.0"),
    (lambda: Td3Config(policy_period=0), r"learner\.algorithm\.policy_period is 0"),
    (
      lambda: Td3Config(target_period=0),
      r"learner\.algorithm\.target_period is 0: it must be a whole number, 1 or more\.",
    ),
    (lambda: Td3Config(target_period=-2), r"learner\.algorithm\.target_period is -2"),
    (lambda: Td3Config(target_noise=-0.1), r"learner\.algorithm\.target_noise is -0\.1"),
    (lambda: Td3Config(action_noise=-1.0), r"learner\.algorithm\.action_noise is -1\.0"),
    (lambda: DdpgConfig(policy_learning_rate=0.0), r"learner\.algorithm\.policy_learning_rate is 0\.0"),
    (
      lambda: DdpgConfig(critic_l2=-1.0),
      r"learner\.algorithm\.critic_l2 is -1\.0: it must be a finite number, 0 or more\.",
    ),
    (lambda: DdpgConfig(policy_l2=-1.0), r"learner\.algorithm\.policy_l2 is -1\.0"),
    (lambda: NafConfig(action_noise=-1.0), r"learner\.algorithm\.action_noise is -1\.0"),
    (
      lambda: DdpgConfig(noise="pink"),  # type: ignore[arg-type]  # That is the mistake.
      r"learner\.algorithm\.noise is 'pink': use one of gaussian, ornstein_uhlenbeck\.$",
    ),
    (lambda: NafConfig(noise_reversion=0.0), r"learner\.algorithm\.noise_reversion is 0\.0: it must lie in \(0, 1\]\."),
    (lambda: DdpgConfig(noise_reversion=1.5), r"learner\.algorithm\.noise_reversion is 1\.5"),
    (
      lambda: RunConfig(network=NetworkConfig(()), learner=LearnerConfig(algorithm=DdqnConfig(dueling=True))),
      r"learner\.algorithm\.dueling splits the last hidden layer, and network\.hidden_sizes is empty",
    ),
  ],
)
def test_a_value_that_makes_no_sense_is_refused(make, sentence):
  with pytest.raises(UserError, match=sentence):
    make()


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "v_racer"])  # It needs more than its name.
def test_an_algorithm_travels_as_json_with_its_name(name):
  config = run_with(ALGORITHMS[name]())
  data = to_dict(config)["learner"]["algorithm"]
  assert next(iter(data.items())) == ("name", name)
  assert from_json(to_json(config)) == config
  # A name alone stands for the defaults.
  assert from_json(json.dumps({"learner": {"algorithm": name}})) == config
  assert from_json(json.dumps({"learner": {"algorithm": {"name": name}}})) == config


def test_an_algorithm_without_its_defaults_keeps_its_name():
  assert without_defaults(run_with(DdqnConfig())) == {}
  assert without_defaults(run_with(SacConfig())) == {"learner": {"algorithm": {"name": "sac"}}}
  data = without_defaults(run_with(DdqnConfig(epsilon=0.5)))
  assert data == {"learner": {"algorithm": {"name": "ddqn", "epsilon": 0.5}}}


@pytest.mark.parametrize(
  ("algorithm", "sentence"),
  [
    ("scx", r"There is no algorithm 'scx' for learner\.algorithm: did you mean 'sac'\?"),
    (
      {"name": "qqq"},
      r"There is no algorithm 'qqq' for learner\.algorithm: there are ddqn, sac, qr_sac, td3, ddpg, naf, v_racer\.",
    ),
    (
      {"temperature": 1},
      r"learner\.algorithm has the name None: use one of ddqn, sac, qr_sac, td3, ddpg, naf, v_racer\.",
    ),
    (
      {"name": "sac", "temprature": 1},
      r"The config has no key 'learner\.algorithm\.temprature': did you mean 'temperature'",
    ),
    ({"name": "sac", "quantiles": 3}, r"The config has no key 'learner\.algorithm\.quantiles'"),
    (
      {"name": "sac", "temperature": "hot"},
      r"The config's learner\.algorithm\.temperature is not valid: 'hot' is not a number",
    ),
    (None, r"The config's learner\.algorithm is not valid: None is neither the name of an algorithm nor an object"),
  ],
)
def test_an_unknown_algorithm_is_refused(algorithm, sentence):
  with pytest.raises(UserError, match=sentence):
    from_json(json.dumps({"learner": {"algorithm": algorithm}}))


@pytest.mark.parametrize(
  "overrides",
  [
    {"learner.algorithm": "sac", "learner.algorithm.temperature": "0.2"},
    {"learner.algorithm.temperature": "0.2", "learner.algorithm": "sac"},
    {"learner.algorithm.temperature": "0.2", "learner.algorithm.name": "sac"},
    {"learner.algorithm": '{"name": "sac", "temperature": 0.2}'},
    {"learner.algorithm.temperature": "0.2", "learner.algorithm": '{"name": "sac"}'},
  ],
)
@pytest.mark.parametrize("before", [DdqnConfig(dueling=True), SacConfig(policy_l2=0.5), Td3Config(policy_period=3)])
def test_a_name_chooses_an_algorithms_defaults_in_any_order_with_its_fields(overrides, before):
  assert override(run_with(before), overrides).learner.algorithm == SacConfig(temperature=0.2)


def test_an_override_of_an_algorithms_field_keeps_its_other_fields():
  changed = override(run_with(SacConfig(policy_l2=0.5)), {"learner.algorithm.temperature": "0.2"})
  assert changed.learner.algorithm == SacConfig(policy_l2=0.5, temperature=0.2)


@pytest.mark.parametrize(
  ("overrides", "sentence"),
  [
    ({"learner.algorithm": "scx"}, r"There is no algorithm 'scx' for learner\.algorithm: did you mean 'sac'\?"),
    ({"learner.algorithm": "none"}, r"The config's learner\.algorithm is not valid: None is neither the name"),
    (
      {"learner.algorithm": "td3", "learner.algorithm.policy_perod": "3"},
      r"The config has no key 'learner\.algorithm\.policy_perod': did you mean 'policy_period'",
    ),
    ({"learner.algorithm": "sac", "learner.algorithm.epsilon": "0"}, r"no key 'learner\.algorithm\.epsilon'"),
  ],
)
def test_an_override_of_an_algorithm_that_is_not_valid_is_refused(overrides, sentence):
  with pytest.raises(UserError, match=sentence):
    override(RunConfig(), overrides)


@dataclasses.dataclass(frozen=True)
class _ToyConfig(AlgorithmConfig):
  NAME = "toy"
  POLICY = "values"
  ACTIONS = "discrete"

  rate: float = 0.5


def test_a_further_algorithm_is_one_more_member(monkeypatch):
  monkeypatch.setitem(ALGORITHMS, "toy", _ToyConfig)
  config = override(RunConfig(), {"learner.algorithm": "toy", "learner.algorithm.rate": "0.25"})
  assert config.learner.algorithm == _ToyConfig(0.25)
  assert from_json(to_json(config)) == config
  with pytest.raises(UserError, match="there are ddqn, sac, qr_sac, td3, ddpg, naf, v_racer, toy"):
    override(RunConfig(), {"learner.algorithm": "qqq"})
  # And it publishes the kind of policy that it names.
  scalar = specs.Array((), np.float32)
  spec = specs.EnvironmentSpec(specs.Array((2,), np.float32), specs.DiscreteArray(3), scalar, scalar)
  policy = make_policy(config, spec, seed=1)
  observations = np.ones((1, 2), np.float32)
  acting = make_acting_policy(config, spec, flatten_weights(policy))
  np.testing.assert_array_equal(acting.best(observations), policy.best_actions(observations))

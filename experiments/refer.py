"""ReF-ER's experiments (Novati & Koumoutsakos, 2019, Section 5 and Appendix E): three algorithms, its rules and parameters."""

import dataclasses
from collections.abc import Mapping, Sequence

from configs import RunConfig, VRacerConfig
from configs.algorithms import Advantage
from configs.methods import METHODS
from configs.presets import refer as presets
from configs.refer import ReferConfig
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  LateMeasure,
  Method,
  Panel,
  Peer,
  evaluated_every,
  known_method,
  with_learner,
)

# In the order of the paper's Section 5.
_METHODS = {"er": "ER", "per_rank": "rank PER", "refer_1": "ReF-ER-1", "refer_2": "ReF-ER-2", "refer": "ReF-ER"}
# Trained by scripts of their own, in `peers/`; the authors' code has V-RACER alone.
_PEERS = {"ppo": "PPO", "smarties": "smarties"}
# The paper's worlds in which all three algorithms are compared here; its others are presets.
WORLDS = ("InvertedDoublePendulum", "Swimmer", "HalfCheetah")
_TITLES = {"v_racer": "V-RACER", "ddpg": "DDPG", "naf": "NAF"}
_FIGURES = {"v_racer": "Figures 4 and 5", "ddpg": "Figures 1 and 2", "naf": "Figure 3"}

# A method's name has neither blanks nor dots, and is typed on a command line.
_IN_NAMES = str.maketrans({" ": "_", ".": "_", "-": "_", "η": "eta"})

_EVALUATIONS = 20
_EPISODES = 5
# The paper draws training episodes alone; in the small budget, evaluations of five would take a tenth of a run's time.
_FEW_EPISODES = 2
_DIVERGENCE, _FAR_SHARE = "learner/refer_mean_divergence", "learner/refer_far_share"
_PANELS = (
  Panel("train_return", "return of training episodes"),
  Panel(_DIVERGENCE, "mean KL(μ || π) over memory, nats", scale="log"),
  Panel(_FAR_SHARE, "share of far-policy steps in memory"),
  Panel("eval_return", "return of the mean action"),
)
_LATE = (
  LateMeasure("train_return", "return, last fifth", "return of training episodes", 0.2),
  LateMeasure(_DIVERGENCE, "KL over memory, last fifth", "mean KL over memory, nats", 0.2, scale="log"),
)


def get_rules(algorithm: str, world: str) -> Experiment:
  """An algorithm with plain replay, rank-based PER, each rule of ReF-ER alone, and both."""
  return _experiment(
    f"refer_{algorithm}_{world.lower()}",
    f"{world} with {_TITLES[algorithm]}: ER, rank PER, ReF-ER-1, ReF-ER-2, ReF-ER (ReF-ER, Section 5, {_FIGURES[algorithm]})",
    presets.get_config(algorithm, world),
    tuple(
      Method(name, label, _per_rank) if name == "per_rank" else known_method(name, label)
      for name, label in _METHODS.items()
    ),
    small_seeds=3,
    reference="er",
    peers=tuple(
      Peer(name, label, f"refer_{name}_{world.lower()}.csv")
      for name, label in _PEERS.items()
      if name == "ppo" or algorithm == "v_racer"
    ),
  )


def get_sensitivity() -> Experiment:
  """ReF-ER's own parameters C, D, A and N, two values on each side of the paper's, with V-RACER on HalfCheetah."""
  return _sensitivity(
    "refer_sensitivity",
    "ReF-ER's parameters one by one",
    "C 4, D .1, A 5e-7",
    {
      "C": [(f"{value:g}", _with_rules(limit=value)) for value in (1.0, 2.0, 8.0, 16.0)],
      "D": [(f"{value:g}", _with_rules(tolerance=value)) for value in (0.02, 0.05, 0.2, 0.5)],
      "A": [(f"{value:g}", _with_rules(annealing=value)) for value in (0.0, 5e-8, 5e-6, 5e-5)],
      "N": [(f"times {value:g}", _with_capacity_times(value)) for value in (0.25, 0.5, 2.0, 4.0)],
    },
  )


def get_learner_sensitivity() -> Experiment:
  """Batch size B, learning rate η, steps per update F and hidden units, likewise; and both closed-form advantages."""
  return _sensitivity(
    "refer_sensitivity_learner",
    "the learner's parameters one by one",
    "B 256, η 1e-4, F 1, 128 units",
    {
      "B": [(f"{value}", _with_learner(batch_size=value)) for value in (64, 128, 512, 1_024)],
      "η": [(f"{value:g}", _with_learner(learning_rate=value)) for value in (1e-5, 3e-5, 3e-4, 1e-3)],
      "F": [(f"{value:g}", _with_steps_per_update(value)) for value in (0.25, 0.5, 2.0, 4.0)],
      "units": [(f"{value}", _with_units(value)) for value in (32, 64, 256, 512)],
      "advantage": [(form, _with_advantage(form)) for form in ("quadratic", "gaussian")],
    },
  )


def _sensitivity(name: str, what: str, papers: str, values: Mapping[str, Sequence[tuple[str, Change]]]) -> Experiment:
  return _experiment(
    name,
    f"HalfCheetah with V-RACER: {what} (ReF-ER, Appendix E, Figures 7 and 8)",
    presets.get_config("v_racer", "HalfCheetah"),
    (
      known_method("refer", papers),
      *(
        Method(f"{parameter}_{value}".translate(_IN_NAMES), f"{parameter} {value}", change)
        for parameter, changes in values.items()
        for value, change in changes
      ),
    ),
    small_seeds=2,
    reference="refer",
  )


def _experiment(
  name: str,
  summary: str,
  config: RunConfig,
  methods: tuple[Method, ...],
  small_seeds: int,
  reference: str,
  peers: tuple[Peer, ...] = (),
) -> Experiment:
  return Experiment(
    name=name,
    summary=summary,
    config=dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, episodes=_EPISODES)),
    methods=methods,
    budgets={
      "paper": Budget(10_000_000, seeds=5, change=_evaluated(10_000_000)),
      "small": Budget(100_000, seeds=small_seeds, change=_smaller(100_000, 2**16)),
      "quick": Budget(6_000, seeds=1, change=_smaller(6_000, 2**13, first_steps=2_000)),
    },
    panels=_PANELS,
    late=_LATE,
    recorded=("train_return", _DIVERGENCE, _FAR_SHARE),
    peers=peers,
    reference=reference,
    over="environment_steps",
    band="percentiles",
  )


def _evaluated(steps: int) -> Change:
  def change(config: RunConfig) -> RunConfig:
    ratio = config.replay.environment_steps_per_update or 1.0
    return evaluated_every(config, round((steps - config.replay.default.min_size) / ratio / _EVALUATIONS))

  return change


def _smaller(steps: int, capacity: int, first_steps: int | None = None) -> Change:
  def change(config: RunConfig) -> RunConfig:
    default = dataclasses.replace(config.replay.default, min_size=first_steps or config.replay.default.min_size)
    replay = dataclasses.replace(config.replay, capacity=capacity, default=default)
    evaluator = dataclasses.replace(config.evaluator, episodes=_FEW_EPISODES)
    return _evaluated(steps)(dataclasses.replace(config, replay=replay, evaluator=evaluator))

  return change


def _per_rank(config: RunConfig) -> RunConfig:
  """Rank-based PER, which explores as plain replay does."""
  return METHODS["per_rank"](METHODS["er"](config))


def _with_rules(**changes: float) -> Change:
  def change(config: RunConfig) -> RunConfig:
    config = METHODS["refer"](config)
    refer = ReferConfig(**{**dataclasses.asdict(config.learner.refer), **changes})
    return dataclasses.replace(config, learner=dataclasses.replace(config.learner, refer=refer))

  return change


def _with_learner(**changes: float | VRacerConfig) -> Change:
  return with_learner(METHODS["refer"], **changes)


def _with_advantage(form: Advantage) -> Change:
  return _with_learner(algorithm=VRacerConfig(advantage=form))


def _with_capacity_times(factor: float) -> Change:
  def change(config: RunConfig) -> RunConfig:
    config = METHODS["refer"](config)
    capacity = round(factor * config.replay.capacity_of(config.replay.default))
    default = dataclasses.replace(config.replay.default, capacity=capacity)
    return dataclasses.replace(config, replay=dataclasses.replace(config.replay, default=default))

  return change


def _with_steps_per_update(steps: float) -> Change:
  def change(config: RunConfig) -> RunConfig:
    config = METHODS["refer"](config)
    replay = dataclasses.replace(config.replay, environment_steps_per_update=steps)
    return evaluated_every(dataclasses.replace(config, replay=replay), round(config.evaluator.period_updates / steps))

  return change


def _with_units(units: int) -> Change:
  def change(config: RunConfig) -> RunConfig:
    config = METHODS["refer"](config)
    return dataclasses.replace(config, network=dataclasses.replace(config.network, hidden_sizes=(units, units)))

  return change

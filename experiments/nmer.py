"""NMER's experiments (Section 5, Appendices D, E and H): buffers, replay ratios, neighbours, and with event tables."""

import dataclasses
from collections.abc import Mapping

from configs import RunConfig, SacConfig, Td3Config
from configs.methods import METHODS
from configs.mixup import MixupConfig, NeighborsConfig
from configs.presets import lunar_lander
from configs.presets import nmer as presets
from configs.presets.nmer import Buffer, Name, Tuned
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  LateMeasure,
  Method,
  Panel,
  Threshold,
  evaluated_every,
  known_method,
  replaying_from_memory,
)

# In the order of the paper's Tables 1 and 3.
LABELS: Mapping[str, str] = {
  "uniform": "Uniform ER",
  "per": "PER",
  "ct": "CT",
  "nmer": "NMER",
  "nn_mixup": "1-NN Mixup",
  "mixup": "Mixup",
  "s4rl": "S4RL",
  "noise": "noise",
}
_TABLE_1 = ("uniform", "per", "ct", "nmer")
RATIOS = (1, 5, 20)
NEIGHBORS = (1, 5, 10, 25)
FRACTIONS = (0.25, 0.5, 0.75)
GROWTHS = (0.0, 0.1, 0.25)

# The paper smooths over so many evaluations.
_WINDOW = 11
_EVALUATIONS = 50
_EPISODES = 5
_BLOCK = 10
# The budgets that end before the paper's 10,000 random steps of TD3 have fewer of them.
_FEW_RANDOM_STEPS = 1_000

_PANELS = (
  Panel("eval_return", f"return, mean of {_WINDOW} evaluations", window=_WINDOW),
  Panel("train_return", "return of training episodes, likewise", window=_WINDOW),
)
_LAST = LateMeasure("eval_return", f"return, last {_WINDOW} evaluations", "return", count=_WINDOW)


def get_buffers(algorithm: Name, world: str) -> Experiment:
  """The buffers of Table 1, and with TD3 those of Table 3, in one world."""
  names = tuple(LABELS) if algorithm == "td3" else _TABLE_1
  tuned = presets.TUNED[algorithm][world]
  small = 50_000 if algorithm == "td3" else 30_000
  where = "Tables 1 and 3, Figure 3" if algorithm == "td3" else "Table 1, Figure 4"
  return _experiment(
    f"nmer_{algorithm}_{world.lower()}",
    f"{world} with {algorithm.upper()}: NMER and the buffers that it is compared with (NMER, {where})",
    _base(algorithm, world),
    tuple(known_method(name, LABELS[name]) for name in names),
    {
      "paper": Budget(200_000, seeds=4, of_methods={name: _tuned(tuned[_row(name)]) for name in names}),
      "small": Budget(small, seeds=3),
      "quick": _quick(),
    },
  )


def get_ratio() -> Experiment:
  """Replay ratios of uniform replay, CT and NMER, with TD3 on HalfCheetah."""
  return _experiment(
    "nmer_ratio",
    "HalfCheetah with TD3: replay ratios of uniform replay, CT and NMER (NMER, Appendix H, Table 9)",
    _base("td3", "HalfCheetah"),
    tuple(
      Method(f"{name}_{ratio}", f"{LABELS[name]}, RR {ratio}", _at_ratio(name, ratio))
      for name in ("uniform", "ct", "nmer")
      for ratio in RATIOS
    ),
    _ablation_budgets(),
    reference="uniform_1",
  )


def get_neighbors() -> Experiment:
  """How many neighbours, which fraction of rows, and how old lists may be, with TD3 on HalfCheetah."""
  return _experiment(
    "nmer_neighbors",
    "HalfCheetah with TD3: NMER's neighbours, fraction and growth (NMER, Appendix E)",
    _base("td3", "HalfCheetah"),
    (
      known_method("uniform", LABELS["uniform"]),
      *(Method(f"neighbors_{count}", f"NMER, k = {count}", _with_mixup(count=count)) for count in NEIGHBORS),
      known_method("mixup", "Mixup, k = all"),
      *(
        Method(f"fraction_{round(100 * fraction)}", f"NMER, fraction {fraction:g}", _with_mixup(fraction=fraction))
        for fraction in FRACTIONS
      ),
      *(
        Method(f"growth_{round(100 * growth)}", f"NMER, growth {growth:g}", _with_mixup(growth=growth))
        for growth in GROWTHS
        if growth != 0.1  # That is k = 10.
      ),
    ),
    _ablation_budgets(),
  )


def get_sset() -> Experiment:
  """NMER and SSET, alone and together, on the continuous lunar lander."""
  return Experiment(
    name="nmer_sset",
    summary="LunarLanderContinuous with SAC: uniform replay, SSET, NMER, and NMER with SSET's rows",
    config=replaying_from_memory(evaluated_every(lunar_lander.get_config(), 4_000)),
    methods=(
      known_method("uniform", LABELS["uniform"]),
      known_method("sset", "SSET"),
      known_method("nmer", LABELS["nmer"]),
      known_method("sset_nmer", "NMER + SSET"),
    ),
    budgets={
      "paper": Budget(100_000, seeds=10),
      "small": Budget(60_000, seeds=5, change=_evaluated_on(10)),
      "quick": Budget(8_000, seeds=2),
    },
    panels=(Panel("eval_return", "return of evaluations"), Panel("train_return", "return of training episodes")),
    thresholds=(Threshold("eval_return", 200.0, "the first evaluation with a mean return of 200"),),
    recorded=("train_return",),
  )


def _experiment(
  name: str,
  summary: str,
  config: RunConfig,
  methods: tuple[Method, ...],
  budgets: Mapping[str, Budget],
  reference: str = "uniform",
) -> Experiment:
  return Experiment(
    name=name,
    summary=summary,
    config=config,
    methods=methods,
    budgets={key: dataclasses.replace(budget, change=_evaluated(budget)) for key, budget in budgets.items()},
    panels=_PANELS,
    late=(_LAST,),
    recorded=("train_return",),
    band="std",
    reference=reference,
    over="environment_steps",
  )


def _base(algorithm: Name, world: str) -> RunConfig:
  """A world's config at a replay ratio of 1, from the learner's memory."""
  return at_ratio(replaying_from_memory(presets.get_config(algorithm, world)), 1)


def at_ratio(config: RunConfig, ratio: int) -> RunConfig:
  """`config` with so many updates for every step, and evaluations and policies after as many steps as before."""
  before = config.replay.environment_steps_per_update
  assert before is not None
  factor = ratio * before
  return dataclasses.replace(
    config,
    replay=dataclasses.replace(config.replay, environment_steps_per_update=1 / ratio),
    learner=dataclasses.replace(
      config.learner,
      updates_per_block=_BLOCK,
      publish_period_updates=round(factor * config.learner.publish_period_updates),
    ),
    evaluator=dataclasses.replace(
      config.evaluator, period_updates=round(factor * config.evaluator.period_updates), episodes=_EPISODES
    ),
  )


def _at_ratio(method: str, ratio: int) -> Change:
  return lambda config: at_ratio(METHODS[method](config), ratio)


def _with_mixup(count: int = 10, fraction: float = 1.0, growth: float = 0.1) -> Change:
  def change(config: RunConfig) -> RunConfig:
    mixup = MixupConfig(neighbors=NeighborsConfig(count, growth), fraction=fraction)
    return METHODS["nmer"](dataclasses.replace(config, learner=dataclasses.replace(config.learner, mixup=mixup)))

  return change


def _row(method: str) -> Buffer:
  """The buffer whose best row a method has: NMER's for those that Tables 8 to 18 leave out."""
  return method if method in _TABLE_1 else "nmer"  # type: ignore[return-value]


def _tuned(tuned: Tuned) -> Change:
  def change(config: RunConfig) -> RunConfig:
    algorithm = config.learner.algorithm
    assert isinstance(algorithm, (SacConfig, Td3Config))
    algorithm = dataclasses.replace(algorithm, policy_l2=tuned.policy_l2)
    mixup = config.learner.mixup
    if mixup.neighbors.count > 1:  # 1-NN Mixup has one.
      mixup = dataclasses.replace(mixup, neighbors=NeighborsConfig(tuned.neighbors))
    learner = dataclasses.replace(
      config.learner, algorithm=algorithm, max_gradient_norm=tuned.max_gradient_norm, mixup=mixup
    )
    return at_ratio(dataclasses.replace(config, learner=learner), tuned.updates_per_step)

  return change


def _evaluated(budget: Budget) -> Change:
  """The budget's change, and `_EVALUATIONS` in a run."""

  def change(config: RunConfig) -> RunConfig:
    config = budget.change(config)
    return evaluated_every(config, (budget.steps - config.replay.default.min_size) // _EVALUATIONS)

  return change


def _with_few_random_steps(config: RunConfig) -> RunConfig:
  default = dataclasses.replace(config.replay.default, min_size=_FEW_RANDOM_STEPS)
  return dataclasses.replace(
    config,
    replay=dataclasses.replace(config.replay, default=default),
    actor=dataclasses.replace(config.actor, random_steps=_FEW_RANDOM_STEPS),
  )


def _evaluated_on(episodes: int) -> Change:
  return lambda config: dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, episodes=episodes))


def _small_ablation(config: RunConfig) -> RunConfig:
  # With five episodes, evaluations would take most of the time of runs of 15,000 steps.
  return _evaluated_on(2)(_with_few_random_steps(config))


def _quick() -> Budget:
  return Budget(3_000, seeds=2, change=_with_few_random_steps)


def _ablation_budgets() -> dict[str, Budget]:
  return {
    "paper": Budget(200_000, seeds=4),
    "small": Budget(15_000, seeds=2, change=_small_ablation),
    "quick": _quick(),
  }

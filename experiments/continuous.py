"""Experiments with continuous actions: algorithms on Pendulum, and SSET's Section 6 on the lunar lander and MuJoCo's worlds."""

import dataclasses
from collections.abc import Mapping

from configs import RunConfig
from configs.methods import METHODS, per
from configs.presets import classic_control, lunar_lander, mujoco
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  Method,
  Panel,
  Threshold,
  evaluated_every,
  known_method,
  replaying_from_memory,
  with_events_of,
  with_history,
  with_learner,
)

# Section 6 compares several exponents and does not list them.
EXPONENTS = (0.4, 0.65, 0.9)
# World -> reward threshold -> share of a batch, with Table 2's shares: rewards that this budget's policies earn. Walker2d's are
# half of Table 2's. A step of Humanoid brings 5 for being upright; what exceeds that is a quarter of Table 2's.
LOWER_REWARDS: Mapping[str, Mapping[float, float]] = {
  "Walker2d": {2: 0.2, 2.5: 0.1, 3: 0.05, 3.5: 0.05},
  "Humanoid": {5: 0.2, 5.5: 0.1, 6.25: 0.1},
}
# Steps, besides Table 2's 200.
HISTORIES = (1, 50)

_RETURN = Panel("eval_return", "return (30 episodes)")
_TRAINING = Panel("train_return", "return of training episodes")


def get_pendulum() -> Experiment:
  """SAC, QR-SAC and TD3, a gradient step for every environment step."""
  return Experiment(
    name="pendulum",
    summary="Pendulum: SAC, QR-SAC and TD3",
    config=evaluated_every(classic_control.get_pendulum_config(), 376),
    methods=(
      Method("sac", "SAC", lambda config: config),
      Method("qr_sac", "QR-SAC", _with_learner_of(classic_control.get_pendulum_qr_sac_config())),
      Method("td3", "TD3", _with_learner_of(classic_control.get_pendulum_td3_config())),
    ),
    # The last evaluation is at 9,900 environment steps, warm-up included: the goal should be reached within 10,000.
    budgets={"paper": Budget(steps=9_400, seeds=5), "quick": Budget(steps=3_008, seeds=2)},
    panels=(Panel("eval_return", "return (10 episodes)"), _TRAINING),
    thresholds=(Threshold("eval_return", -200.0, "the first evaluation with a mean return of -200"),),
    recorded=(_TRAINING.curve,),
    reference="sac",
  )


def get_lunar_lander() -> Experiment:
  """Experiment 10 on the lunar lander: uniform replay, PER with several exponents, SSET; and QR-SAC with SSET."""
  exponents = tuple(
    Method(f"per_{round(100 * exponent)}", f"PER, exponent {exponent:g}", _prioritized(exponent))
    for exponent in EXPONENTS
  )
  qr_sac = Method("sset_qr_sac", "SSET, QR-SAC", _with_learner_of(lunar_lander.get_qr_sac_config()))
  return Experiment(
    name="lunar_lander",
    summary="LunarLanderContinuous with SAC: uniform replay, PER, SSET (SSET, Section 6, Figure 6)",
    config=evaluated_every(lunar_lander.get_config(), 4_000),
    methods=(known_method("uniform", "Uniform ER"), known_method("sset", "SSET"), *exponents, qr_sac),
    budgets={"paper": Budget(steps=100_000, seeds=5), "quick": Budget(steps=8_000, seeds=2)},
    panels=(_RETURN, _TRAINING),
    thresholds=(Threshold("eval_return", 200.0, "the first evaluation with a mean return of 200"),),
    recorded=(_TRAINING.curve,),
  )


def get_lunar_lander_batches() -> Experiment:
  """Three times the lunar lander's updates, from the learner's memory, with Table 2's batches of 32 and with larger ones."""
  lander = _from_memory(get_lunar_lander())
  uniform, sset, per_40, _, per_90, _ = lander.methods
  larger = tuple(
    Method(f"{method.name}_256", f"{method.label}, batches of 256", with_learner(method.change, batch_size=256))
    for method in (uniform, sset)
  )
  return dataclasses.replace(
    lander,
    name="lunar_lander_batches",
    summary="LunarLanderContinuous with SAC, long: batches of 32 and 256 (SSET, Section 6, Figure 6)",
    config=evaluated_every(lander.config, 6_000),
    methods=(uniform, sset, per_40, per_90, *larger),
    budgets={"paper": Budget(steps=300_000, seeds=10), "quick": Budget(steps=6_000, seeds=2)},
  )


def get_half_cheetah() -> Experiment:
  """Experiment 10 on HalfCheetah, from the learner's memory: uniform replay, SSET, and SSET with events of lower rewards."""
  # Table 2's rewards are for policies that earn more than 8 a step; this budget's policies earn about 5.
  rewards = {reward / 4: share for reward, share in mujoco.EVENTS["HalfCheetah"].items()}
  quarter = Method("sset_quarter", "SSET, thresholds / 4", with_events_of(mujoco.get_config("HalfCheetah", rewards)))
  return _with_seeds(_from_memory(_mujoco("HalfCheetah", 3_000.0, quarter)), 10)


def get_hopper() -> Experiment:
  """Experiment 10 on Hopper: uniform replay and SSET."""
  return _mujoco("Hopper", 1_000.0)


def get_walker() -> Experiment:
  """Experiment 10 on Walker2d, from the learner's memory: uniform replay, SSET, and SSET with events of lower rewards."""
  return _from_memory(
    _mujoco("Walker2d", 1_000.0, Method("sset_lower", "SSET, lower rewards", _with_lower("Walker2d")))
  )


def get_humanoid() -> Experiment:
  """Experiment 10 on Humanoid, from the learner's memory: uniform replay, SSET, and SSET with events of lower rewards."""
  return _from_memory(_mujoco("Humanoid", 300.0, Method("sset_lower", "SSET, lower rewards", _with_lower("Humanoid"))))


def get_hopper_histories() -> Experiment:
  """Histories of 50 steps on Hopper, beside Table 2's, from the learner's memory."""
  hopper = _with_seeds(_from_memory(get_hopper()), 10)
  uniform, sset = hopper.methods
  shorter = Method("history_50", "SSET, τ = 50", with_history(METHODS["sset"], 50))
  return dataclasses.replace(
    hopper,
    name="hopper_histories",
    summary="Hopper with SAC: lengths of histories (SSET, Section 6, Figure 13)",
    methods=(uniform, shorter, dataclasses.replace(sset, label="SSET, τ = 200")),
  )


def get_walker_histories() -> Experiment:
  """Histories of several lengths on Walker2d."""
  return _histories(get_walker(), "Walker2d")


def get_humanoid_histories() -> Experiment:
  """Histories of several lengths on Humanoid."""
  return _histories(get_humanoid(), "Humanoid")


def _from_memory(experiment: Experiment) -> Experiment:
  return dataclasses.replace(experiment, config=replaying_from_memory(experiment.config))


def _with_seeds(experiment: Experiment, seeds: int) -> Experiment:
  """The experiment with so many seeds within the paper's budget."""
  paper = dataclasses.replace(experiment.budgets["paper"], seeds=seeds)
  return dataclasses.replace(experiment, budgets={**experiment.budgets, "paper": paper})


def _with_lower(world: str, history: int = 200) -> Change:
  """SSET with events of rewards that this budget's policies earn, with histories of so many steps."""
  changed = mujoco.get_config(world, LOWER_REWARDS[world])
  events = tuple(dataclasses.replace(event, history=history) for event in changed.events)
  return with_events_of(dataclasses.replace(changed, events=events))


def _histories(experiment: Experiment, world: str) -> Experiment:
  shorter = (
    Method(f"history_{history}", f"SSET, lower rewards, τ = {history}", _with_lower(world, history))
    for history in HISTORIES
  )
  uniform, _, lower = experiment.methods
  return dataclasses.replace(
    experiment,
    name=f"{experiment.name}_histories",
    summary=f"{world} with SAC: lengths of histories (SSET, Section 6, Figure 13)",
    methods=(uniform, *shorter, dataclasses.replace(lower, label=f"{lower.label}, τ = 200")),
  )


def _mujoco(world: str, threshold: float, *more: Method) -> Experiment:
  config = evaluated_every(mujoco.get_config(world), 5_008)  # A multiple of a block's 16 updates.
  # As many episodes as in the paper's Figure 6.
  config = dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, episodes=30))
  return Experiment(
    name=world.lower(),
    summary=f"{world} with SAC: uniform replay and SSET (SSET, Section 6, Figure 6)",
    config=config,
    methods=(known_method("uniform", "Uniform ER"), known_method("sset", "SSET"), *more),
    budgets={"paper": Budget(steps=100_160, seeds=3), "quick": Budget(steps=5_008, seeds=2)},
    panels=(_RETURN, _TRAINING),
    thresholds=(Threshold("eval_return", threshold, f"the first evaluation with a mean return of {threshold:,g}"),),
    recorded=(_TRAINING.curve,),
  )


def _with_learner_of(other: RunConfig) -> Change:
  """Takes the learner, and so the algorithm, of another config."""
  return lambda config: dataclasses.replace(config, learner=other.learner)


def _prioritized(exponent: float) -> Change:
  """PER with this exponent."""

  def change(config: RunConfig) -> RunConfig:
    priority = dataclasses.replace(config.replay.priority, exponent=exponent)
    return per(dataclasses.replace(config, replay=dataclasses.replace(config.replay, priority=priority)))

  return change

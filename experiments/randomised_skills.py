"""Experiments 5 and 9, in the randomised skills (SSET, Sections 5.4 and 5.7)."""

import dataclasses

from configs import CagradConfig, RunConfig
from configs.presets import randomised_skills
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
)
from experiments.obstacle_course import PERIOD, QUICK, TRAINING

_COEFFICIENTS = (0.2, 0.5, 0.8)


def get_experiment() -> Experiment:
  """Experiment 5: the return in each skill, from the learner's memory."""
  return Experiment(
    name="randomised_skills",
    summary="lava, a gap or a door in each episode: return in each skill (SSET, Section 5.4, Figure 5)",
    config=replaying_from_memory(evaluated_every(randomised_skills.get_config(), PERIOD)),
    methods=(known_method("uniform", "Uniform ER"), known_method("per", "PER"), known_method("sset", "SSET")),
    # With 64,000 updates the return at the door was still rising.
    budgets={"paper": Budget(steps=256_000, seeds=30), "quick": QUICK},
    panels=(
      Panel("lava_return", "return, lava"),
      Panel("gap_return", "return, gap"),
      Panel("door_return", "return, open-door"),
      Panel("eval_return", "return, all skills (ε = .05)"),
      TRAINING,
    ),
    thresholds=tuple(
      Threshold(f"{skill}_return", 0.0, f"the first evaluation with a mean return of 0 in the skill {skill}")
      for skill in ("lava", "gap", "door")
    ),
    probes={f"{skill}_return": f"experiments.probes:{skill}_return" for skill in ("lava", "gap", "door")},
    recorded=(TRAINING.curve,),
    band="std",
  )


def get_cagrad() -> Experiment:
  """Experiment 9: conflict-averse gradients with several constant coefficients, and with one that falls to 0.

  The runs of its first two methods are those of experiment 5.
  """
  return dataclasses.replace(
    get_experiment(),
    name="cagrad",
    summary="the randomised skills with conflict-averse gradients (SSET, Section 5.7)",
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("sset", "SSET, c = 0"),
      *(Method(f"c_{round(100 * c)}", f"SSET, c = {c:g}", _with_cagrad(CagradConfig(c))) for c in _COEFFICIENTS),
      Method("c_80_to_0", "SSET, c from .8 to 0 in 128,000 updates", _with_cagrad(CagradConfig(0.8, 0.0, 128_000))),
    ),
    panels=(Panel("eval_return", "return (ε = .05)"), Panel("door_return", "return, open-door"), TRAINING),
    thresholds=(
      Threshold("train_return", 0.0, "training episodes with a mean return of 0"),
      Threshold("door_return", 0.0, "the first evaluation with a mean return of 0 in the skill open-door"),
    ),
    band="interval",
  )


def _with_cagrad(cagrad: CagradConfig) -> Change:
  def change(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, learner=dataclasses.replace(config.learner, cagrad=cagrad))

  return change

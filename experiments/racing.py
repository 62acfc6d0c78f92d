"""SSET's races (Section 7 and A.4): the slingshot pass and staying on course, each in one process with its world."""

import dataclasses

from configs import RunConfig
from configs.presets import racing
from experiments.definition import (
  Budget,
  Experiment,
  LateMeasure,
  Method,
  Panel,
  Threshold,
  eval_measure,
  evaluated_every,
  known_method,
  replaying_from_memory,
  with_events_of,
)

# Mini-batches of an epoch on two cores; the paper's has 6,000.
EPOCH = 512
# Epochs between two evaluations, as in the paper.
EVALUATION_EPOCHS = 5

_WON = eval_measure("won")
_MARGIN = eval_measure("margin")
_OFF_COURSE = eval_measure("off_course_count")
_CLEAN = eval_measure("clean")
_BEST_LAP = eval_measure("best_lap")
_LAPS = eval_measure("laps")


def get_slingshot() -> Experiment:
  """The slingshot pass: uniform replay, SSET, and SSET without the weights that correct the bias of its tables."""
  return Experiment(
    name="slingshot",
    summary="slingshot pass with QR-SAC: uniform replay, SSET with and without exact weights (SSET, Section 7.1, Figure 7)",
    config=_prepared(racing.get_slingshot_config()),
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("sset", "SSET"),
      Method("uncorrected", "SSET without weights", _uncorrected),
    ),
    budgets={"paper": _budget(epochs=500, seeds=3), "quick": _budget(epochs=30, seeds=2)},
    panels=(
      Panel(_WON, "cumulative wins", cumulative=True),
      Panel(_MARGIN, "margin of evaluations, m"),
      Panel("train_return", "return of training episodes"),
    ),
    thresholds=(Threshold(_WON, 1.0, "the first evaluation that wins"),),
    late=(LateMeasure(_MARGIN, "winning margin in the last fifth, m", "m ahead where it won", 0.2, given=_WON),),
    recorded=(_WON, _MARGIN, "train_return"),
  )


def get_slingshot_thresholds() -> Experiment:
  """The slingshot pass with SSET, and with the slipstream's other thresholds of A.4. It shares runs with `get_slingshot`."""
  others = tuple(
    Method(
      f"slipstream_{round(100 * above)}",
      f"SSET, slipstream > {above}",
      with_events_of(racing.get_slingshot_config(above)),
    )
    for above in (0.1, 0.9)
  )
  return dataclasses.replace(
    get_slingshot(),
    name="slingshot_thresholds",
    summary="slingshot pass with SSET: three thresholds of its slipstream event (SSET, A.4, Figures 16 and 17)",
    methods=(known_method("sset", "SSET, slipstream > 0.7"), *others),
    budgets={"paper": _budget(epochs=500, seeds=2), "quick": _budget(epochs=30, seeds=2)},
    reference="sset",
  )


def get_time_trial() -> Experiment:
  """Staying on course: uniform replay, SSET, and SSET with the shorter event of Section 7.2."""
  shorter = Method("one_second", "SSET, 1 s on course, τ = 5 s", with_events_of(racing.get_time_trial_config(1, 5)))
  return Experiment(
    name="time_trial",
    summary="time trial with QR-SAC: uniform replay, SSET, a shorter event (SSET, Section 7.2, Figure 8)",
    config=_prepared(racing.get_time_trial_config()),
    methods=(known_method("uniform", "Uniform ER"), known_method("sset", "SSET, 2 s on course, τ = 7 s"), shorter),
    budgets={"paper": _budget(epochs=300, seeds=3), "quick": _budget(epochs=30, seeds=2)},
    panels=(
      Panel(_OFF_COURSE, "cumulative times off course (3 laps)", cumulative=True),
      Panel("train_return", "return of training episodes"),
    ),
    # Not clean ones, as a car that stands is clean.
    thresholds=(Threshold(_LAPS, 3.0, "the first evaluation that completes its three laps"),),
    late=(
      LateMeasure(_CLEAN, "share of clean evaluations, second half", "share of clean evaluations", 0.5, spread=False),
      LateMeasure(_BEST_LAP, "best lap of 3 in the second half, s", "s of the best lap of 3", 0.5),
    ),
    recorded=(_OFF_COURSE, _CLEAN, _BEST_LAP, _LAPS, "train_return"),
  )


def _uncorrected(config: RunConfig) -> RunConfig:
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, bias_correction="none"))


def _prepared(config: RunConfig) -> RunConfig:
  """Evaluations as often as the paper's. One episode each: the greedy policy is judged by many evaluations, as there."""
  return replaying_from_memory(evaluated_every(config, EVALUATION_EPOCHS * EPOCH))


def _budget(epochs: int, seeds: int) -> Budget:
  return Budget(steps=epochs * EPOCH, seeds=seeds)

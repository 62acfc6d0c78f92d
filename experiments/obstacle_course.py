"""Experiments 4, 6, 7 and 8, in the obstacle course (SSET, Sections 5.4 to 5.6)."""

import dataclasses

from configs import EnvironmentConfig, RunConfig
from configs.methods import reverse_sweep
from configs.presets import obstacle_course
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  Method,
  Panel,
  Threshold,
  evaluated_every,
  known_method,
  papers_methods,
  replaying_from_memory,
  with_history,
)


def _with_short_warm_up(config: RunConfig) -> RunConfig:
  return dataclasses.replace(config, actor=dataclasses.replace(config.actor, random_steps=5_000))


QUICK = Budget(steps=12_800, seeds=2, change=_with_short_warm_up)
# In gradient steps. Until something is learned, every episode of an evaluation or a probe lasts until the time limit; with half
# of these periods, those episodes would take a quarter of a run's time.
PERIOD = 6_400
TRAINING = Panel("train_return", "return of training episodes (ε = .3)")
_RETURNS = (Panel("eval_return", "return (ε = .05)"), TRAINING)


def get_experiment() -> Experiment:
  """Experiment 4: five methods, from the learner's memory."""
  return Experiment(
    name="obstacle_course",
    summary="spikes, lava, a key and a door: return (SSET, Section 5.4, Figure 4)",
    config=replaying_from_memory(evaluated_every(obstacle_course.get_config(), PERIOD)),
    methods=papers_methods(),
    budgets={"paper": Budget(steps=128_000, seeds=30), "quick": QUICK},
    panels=_RETURNS,
    thresholds=(
      Threshold(
        "train_return", -1.0, "training episodes with a mean return of -1, what walking into the lava at once is worth"
      ),
    ),
    probes={"shifted_success": "experiments.probes:shifted_success"},
    recorded=(TRAINING.curve,),
    band="std",
  )


def get_long() -> Experiment:
  """Experiment 4 with twice the updates: whether runs that had learned nothing learn later."""
  return dataclasses.replace(
    get_experiment(),
    name="obstacle_course_long",
    summary="the obstacle course with twice the updates: return (SSET, Section 5.4, Figure 4)",
    methods=_three_methods(),
    budgets={"paper": Budget(steps=256_000, seeds=10), "quick": QUICK},
  )


def get_short() -> Experiment:
  """Experiment 4 as it was first run: episodes of 200 steps, two doors, half of the budget, from the server."""
  course = get_experiment()
  config = dataclasses.replace(obstacle_course.get_config(), environment=EnvironmentConfig("obstacle_course"))
  return dataclasses.replace(
    course,
    name="obstacle_course_short",
    summary="the obstacle course with 200 steps an episode, two keys and two doors: return (SSET, Section 5.4, Figure 4)",
    config=evaluated_every(config, PERIOD // 4),
    budgets={
      "paper": Budget(steps=64_000, seeds=30),
      "quick": Budget(steps=6_400, seeds=2, change=_with_short_warm_up),
    },
  )


def get_forgetting() -> Experiment:
  """Experiment 6: how often a policy trained from (1, 1) succeeds from the start (1, 4); its runs are those of experiment 4."""
  return dataclasses.replace(
    get_experiment(),
    name="forgetting",
    summary="the obstacle course, evaluated from a shifted start (SSET, Section 5.5, Figure 9)",
    methods=_three_methods(),
    panels=(Panel("shifted_success", "share of successes from (1, 4)"), *_RETURNS),
    thresholds=(
      Threshold("shifted_success", 0.5, "the first evaluation with half of its episodes successful from (1, 4)"),
    ),
    band="interval",
  )


def get_histories() -> Experiment:
  """Experiment 7: intermediate events against the goal alone with histories of several lengths."""
  return dataclasses.replace(
    get_experiment(),
    name="histories",
    summary="the obstacle course: intermediate events against the goal with longer histories (SSET, Section 5.6, Figure 10)",
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("sset", "all events, τ = 50"),
      *(
        Method(f"done_{history}", f"goal, τ = {history}", with_history(reverse_sweep, history))
        for history in (1, 50, 100, 200)
      ),
    ),
    band="interval",
  )


def get_weights() -> Experiment:
  """Experiment 8: several shares of the event tables, which sum to a half, each raised to one row of a batch at least."""
  events = tuple(obstacle_course.SHARES)
  equal = dict.fromkeys(events, 0.5 / len(events))
  return dataclasses.replace(
    get_experiment(),
    name="weights",
    summary="the obstacle course: shares of the event tables (SSET, Section 5.6)",
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("sset", "hand-set (Table 1)"),
      Method("equal", "equal", _with_shares(equal)),
      Method("door", "door .4", _with_shares(_mostly("at_door"))),
      Method("done", "goal .4", _with_shares(_mostly("done"))),
    ),
    band="interval",
  )


def _three_methods() -> tuple[Method, ...]:
  return (known_method("uniform", "Uniform ER"), known_method("per", "PER"), known_method("sset", "SSET"))


def _mostly(event: str) -> dict[str, float]:
  """A share of .4 for one event; the others divide .1 equally."""
  others = [name for name in obstacle_course.SHARES if name != event]
  return {event: 0.4, **dict.fromkeys(others, 0.1 / len(others))}


def _with_shares(shares: dict[str, float]) -> Change:
  def change(config: RunConfig) -> RunConfig:
    tables = tuple(dataclasses.replace(table, probability=shares[table.name]) for table in config.replay.tables)
    return dataclasses.replace(config, replay=dataclasses.replace(config.replay, tables=tables, at_least_one=True))

  return change

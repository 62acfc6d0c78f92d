"""ReaPER's experiments (Section 5, Appendix E): steps to a threshold in three control tasks, exponents, and with event tables."""

import dataclasses

from configs.methods import per, reaper
from configs.presets import reaper as presets
from experiments import three_rooms
from experiments.definition import (
  Budget,
  Change,
  Experiment,
  Method,
  Threshold,
  known_method,
  replaying_from_memory,
  with_priority,
)

# alpha of the paper's PER, and the pairs of alpha and omega that it tried on Qbert.
PER_EXPONENT = 0.6
EXPONENTS = ((0.2, 0.4), (0.3, 0.3), (0.4, 0.2))
_QUICK = {"cartpole": 6_000, "acrobot": 10_000, "lunar_lander": 10_000}
_TITLES = {"cartpole": "CartPole", "acrobot": "Acrobot", "lunar_lander": "LunarLander"}


def get_cartpole() -> Experiment:
  """CartPole: uniform replay, PER and ReaPER."""
  return _control("cartpole")


def get_acrobot() -> Experiment:
  """Acrobot: uniform replay, PER and ReaPER."""
  return _control("acrobot")


def get_lunar_lander() -> Experiment:
  """LunarLander: uniform replay, PER and ReaPER."""
  return _control("lunar_lander")


def get_exponents() -> Experiment:
  """Appendix E's three pairs of exponents, on CartPole, as Qbert's pictures need more than this code has."""
  cartpole = get_cartpole()
  paper = cartpole.budgets["paper"]
  pairs = tuple(
    Method(
      f"reaper_{round(10 * alpha)}_{round(10 * omega)}", f"ReaPER, α {alpha:g}, ω {omega:g}", _reaper(alpha, omega)
    )
    for alpha, omega in EXPONENTS
  )
  return dataclasses.replace(
    cartpole,
    name="reaper_exponents",
    summary="CartPole: ReaPER's exponents (ReaPER, Appendix E, there on Qbert)",
    methods=pairs,
    budgets={**cartpole.budgets, "paper": dataclasses.replace(paper, seeds=10)},
    reference=pairs[-1].name,
  )


def get_three_rooms() -> Experiment:
  """The three rooms from the learner's memory: uniform replay, PER and ReaPER, each with and without SSET."""
  rooms = three_rooms.get_experiment()
  return dataclasses.replace(
    rooms,
    name="reaper_three_rooms",
    summary="three rooms: uniform replay, PER and ReaPER, with and without SSET",
    config=replaying_from_memory(rooms.config),
    methods=(
      known_method("uniform", "Uniform ER"),
      known_method("per", "PER"),
      known_method("reaper", "ReaPER"),
      known_method("sset", "SSET"),
      known_method("sset_per", "PER + SSET"),
      known_method("sset_reaper", "ReaPER + SSET"),
    ),
  )


def _control(name: str) -> Experiment:
  config, world = presets.get_config(name), presets.WORLDS[name]
  return Experiment(
    name=f"reaper_{name}",
    summary=f"{_TITLES[name]}: uniform replay, PER and ReaPER (ReaPER, Section 5, Figure 2)",
    config=config,
    methods=(
      known_method("uniform", "Uniform ER"),
      Method("per", f"PER, α {PER_EXPONENT:g}", with_priority(per, exponent=PER_EXPONENT)),
      Method("reaper", "ReaPER, α 0.4, ω 0.2", reaper),
    ),
    budgets={
      "paper": Budget(config.replay.priority.importance_updates, seeds=20),
      "quick": Budget(_QUICK[name], seeds=2, change=_for_updates(_QUICK[name])),
    },
    thresholds=(
      Threshold("eval_return", world.threshold, f"the first evaluation with a mean return of {world.threshold:g}"),
    ),
    reference="per",
    ends_when_solved=True,
  )


def _for_updates(updates: int) -> Change:
  """Beta reaches 1 with the budget's last update."""
  return with_priority(lambda config: config, importance_updates=updates)


def _reaper(alpha: float, omega: float) -> Change:
  return with_priority(reaper, exponent=alpha, reliability_exponent=omega)

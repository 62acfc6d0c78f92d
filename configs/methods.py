"""The methods that experiments compare, by name (SSET, Section 5): each turns a run's config into the config of that method.

A config with SSET's tables holds everything that the other methods need. So `slipstream train --method=NAME` applies any method
to any preset, and an experiment is a config and a list of names.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from configs.algorithms import DdpgConfig
from configs.errors import UserError, name_hint
from configs.learning import CagradConfig
from configs.mixup import MixupKind
from configs.refer import Rules
from configs.run import RunConfig
from configs.specs import EventSpec, TableSpec

# For `cagrad` if the config sets none; the paper compares several (Section 5.7).
_CAGRAD_COEFFICIENT = 0.5
# alpha and omega (ReaPER, Appendix E).
_REAPER_EXPONENTS = 0.4, 0.2
# Rules of ReF-ER -> the method that has them.
_RULES: Mapping[Rules, str] = {"watched": "er", "first": "refer_1", "second": "refer_2", "both": "refer"}


def uniform(config: RunConfig) -> RunConfig:
  """Uniform replay from one table of every transition, which has the capacity of all tables together.

  The event that the evaluator needs is kept but only watched. The other events are dropped, and with them what needs event
  tables (bias correction, conflict-averse gradients). Rows are not mixed, and no rule of ReF-ER acts.
  """
  config = _mixing(_unshaped(config), "none")
  config = _by_td_error(config)
  config = _without_rules(config)
  default = dataclasses.replace(
    config.replay.default,
    probability=1.0,
    capacity=_joint_capacity(config, config.replay.all_tables),
    selector="uniform",
  )
  replay = dataclasses.replace(config.replay, default=default, tables=(), shares="fixed")
  learner = dataclasses.replace(config.learner, bias_correction="none", cagrad=CagradConfig())
  return dataclasses.replace(config, events=_watched(config), replay=replay, learner=learner)


def per(config: RunConfig) -> RunConfig:
  """Prioritised replay: `uniform`, with draws by TD error (`replay.priority`)."""
  return _prioritized(uniform(config))


def per_rank(config: RunConfig) -> RunConfig:
  """Rank-based prioritised replay: `uniform` from the learner's own memory, with draws by the rank of the TD error."""
  config = uniform(config)
  default = dataclasses.replace(config.replay.default, selector="ranked")
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="memory", default=default))


def reaper(config: RunConfig) -> RunConfig:
  """ReaPER: `per` from the learner's own memory, with draws by TD error and reliability.

  The exponents are the paper's (Appendix E), alpha = 0.4 and omega = 0.2, unless the config's criterion is ReaPER's already.
  """
  return _reliability_adjusted(uniform(config), config)


def sset(config: RunConfig) -> RunConfig:
  """Stratified sampling from the config's event tables: the config itself, without a potential.

  Raises:
    UserError: the config has no event tables.
  """
  if not config.replay.tables:
    raise UserError(f"The config {config.name!r} has no event tables for SSET: add events and their tables.")
  return _unshaped(config)


def sset_per(config: RunConfig) -> RunConfig:
  """The paper's prioritised SSET: `sset`, with draws by TD error in every table.

  Raises:
    UserError: as `sset`.
  """
  return _prioritized(sset(config))


def sset_reaper(config: RunConfig) -> RunConfig:
  """`sset`, with ReaPER's draws in every table; the exponents are those of `reaper`.

  Raises:
    UserError: as `sset`.
  """
  return _reliability_adjusted(sset(config), config)


def nmer(config: RunConfig) -> RunConfig:
  """NMER: `uniform` from the learner's own memory, with rows mixed with one of their nearest neighbours (`learner.mixup`)."""
  return _mixing(uniform(config), "neighbors")


def nn_mixup(config: RunConfig) -> RunConfig:
  """NMER's 1-NN Mixup: `nmer` with the nearest neighbour alone."""
  return _mixing(uniform(config), "neighbors", neighbors=1)


def mixup(config: RunConfig) -> RunConfig:
  """NMER's naive Mixup: `nmer` with any stored row in the neighbour's place."""
  return _mixing(uniform(config), "mixup")


def ct(config: RunConfig) -> RunConfig:
  """Continuous Transition, as in NMER's experiments: `nmer` with the next step of the episode in the neighbour's place."""
  return _mixing(uniform(config), "continuous")


def s4rl(config: RunConfig) -> RunConfig:
  """S4RL's mixture: `uniform`, with each observation mixed with the next one."""
  return _mixing(uniform(config), "s4rl")


def noise(config: RunConfig) -> RunConfig:
  """NMER's noisy replay: `uniform`, with Gaussian noise on each component."""
  return _mixing(uniform(config), "noise")


def sset_nmer(config: RunConfig) -> RunConfig:
  """`sset`, with NMER's mixture of the rows that it draws.

  Raises:
    UserError: as `sset`.
  """
  return _mixing(sset(config), "neighbors")


def er(config: RunConfig) -> RunConfig:
  """ReF-ER's plain replay: `uniform`, whose rows hold their behaviour, so that it is known how far the policy is from it.

  DDPG explores with Ornstein-Uhlenbeck noise then, as in the paper.
  """
  config = _by_rules(uniform(config), "watched")
  algorithm = config.learner.algorithm
  if not isinstance(algorithm, DdpgConfig):
    return config
  noisy = dataclasses.replace(algorithm, noise="ornstein_uhlenbeck")
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, algorithm=noisy))


def refer_1(config: RunConfig) -> RunConfig:
  """ReF-ER-1: `uniform` with Rule 1 alone, by which far-policy steps give no gradient."""
  return _by_rules(uniform(config), "first")


def refer_2(config: RunConfig) -> RunConfig:
  """ReF-ER-2: `uniform` with Rule 2 alone, by which a penalty holds the policy near its past behaviours."""
  return _by_rules(uniform(config), "second")


def refer(config: RunConfig) -> RunConfig:
  """ReF-ER: `uniform` with both rules, from the learner's own memory."""
  return _by_rules(uniform(config), "both")


def pbs(config: RunConfig) -> RunConfig:
  """`uniform` with the config's potential-based shaping (Section 5.2).

  Raises:
    UserError: the config has no potential.
  """
  return _shaped(uniform(config), config)


def sset_pbs(config: RunConfig) -> RunConfig:
  """`sset` with the config's potential-based shaping.

  Raises:
    UserError: as `sset` and `pbs`.
  """
  return _shaped(sset(config), config)


def cagrad(config: RunConfig) -> RunConfig:
  """`sset` with conflict-averse gradients over its tables (Section 5.7); c is 0.5 unless the config sets it.

  Raises:
    UserError: as `sset`.
  """
  config = sset(config)
  if config.learner.cagrad.in_use:
    return config
  learner = dataclasses.replace(config.learner, cagrad=CagradConfig(_CAGRAD_COEFFICIENT))
  return dataclasses.replace(config, learner=learner)


def reverse_sweep(config: RunConfig) -> RunConfig:
  """The paper's Reverse-sweep*: SSET with the goal event alone.

  The paper does not give its table's share. Here the table gets the share and the capacity of all event tables together, so
  that the method differs from SSET in where its event samples come from, not in how many there are.

  Raises:
    UserError: the config names no goal event (`evaluator.solved_event`), or that event feeds no table.
  """
  config = _unshaped(config)
  goal = _goal(config)
  table = next(table for table in config.replay.tables if table.name == goal.table)
  table = dataclasses.replace(
    table,
    probability=1.0 - config.replay.default.probability,
    capacity=_joint_capacity(config, config.replay.tables),
  )
  replay = dataclasses.replace(config.replay, tables=(table,), shares="fixed")
  return dataclasses.replace(config, events=(goal,), replay=replay)


def goal_only(config: RunConfig) -> RunConfig:
  """`reverse_sweep` with a history of 1: only the transitions into the goal, not those before (Section 5.6, after SER).

  Raises:
    UserError: as `reverse_sweep`.
  """
  swept = reverse_sweep(config)
  return dataclasses.replace(swept, events=tuple(dataclasses.replace(event, history=1) for event in swept.events))


METHODS: Mapping[str, Callable[[RunConfig], RunConfig]] = {
  "uniform": uniform,
  "per": per,
  "per_rank": per_rank,
  "sset": sset,
  "sset_per": sset_per,
  "reaper": reaper,
  "sset_reaper": sset_reaper,
  "nmer": nmer,
  "sset_nmer": sset_nmer,
  "nn_mixup": nn_mixup,
  "mixup": mixup,
  "ct": ct,
  "s4rl": s4rl,
  "noise": noise,
  "er": er,
  "refer_1": refer_1,
  "refer_2": refer_2,
  "refer": refer,
  "reverse_sweep": reverse_sweep,
  "goal_only": goal_only,
  "pbs": pbs,
  "sset_pbs": sset_pbs,
  "cagrad": cagrad,
}


def apply_method(config: RunConfig, name: str) -> RunConfig:
  """`config` with the method `name` applied, which it then names in `method`.

  Raises:
    UserError: there is no such method (the message suggests the nearest), or the config lacks what the method needs.
  """
  if name not in METHODS:
    raise UserError(f"There is no method {name!r}: {name_hint(name, METHODS)}")
  return dataclasses.replace(METHODS[name](config), method=name)


def method_of(config: RunConfig) -> str:
  """The config's method: the one that it names, or else the one that its tables, selectors and potential amount to.

  A config that names none and has event tables is `sset`, even if they are the goal's alone. "other" is a mixture that none of
  `METHODS` makes, such as priorities in some tables, or with a potential.
  """
  if config.method:
    return config.method
  selectors = {table.selector for table in config.replay.all_tables}
  changes = [
    name
    for name, is_made in (
      ("per", selectors == {"prioritized"} and config.replay.priority.criterion == "td_error"),
      ("per_rank", selectors == {"ranked"}),
      ("reaper", config.replay.priority.criterion == "reaper"),
      ("pbs", bool(config.environment.potential)),
      ("cagrad", config.learner.cagrad.in_use),
      (_mixture(config), config.learner.mixup.kind != "none"),
      (_RULES.get(config.learner.refer.rules, ""), config.learner.refer.rules in _RULES),
    )
    if is_made
  ]
  if len(changes) > 1 or selectors not in ({"uniform"}, {"prioritized"}, {"ranked"}):
    return "other"
  base = "sset" if config.replay.tables else "uniform"
  if not changes:
    return base
  name = changes[0] if base == "uniform" or changes == ["cagrad"] else f"sset_{changes[0]}"
  return name if name in METHODS else "other"


def _mixture(config: RunConfig) -> str:
  """The method that has the config's mixture."""
  mixup = config.learner.mixup
  if mixup.kind == "neighbors":
    return "nn_mixup" if mixup.neighbors.count == 1 else "nmer"
  return "ct" if mixup.kind == "continuous" else mixup.kind


def _joint_capacity(config: RunConfig, tables: Sequence[TableSpec]) -> int | None:
  """The capacity of `tables` together; None, so that it follows from the share, if no table sets its own."""
  if all(table.capacity is None for table in config.replay.all_tables):
    return None
  return sum(config.replay.capacity_of(table) for table in tables)


def _prioritized(config: RunConfig) -> RunConfig:
  default, *tables = (dataclasses.replace(table, selector="prioritized") for table in config.replay.all_tables)
  config = _by_td_error(config)
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, default=default, tables=tuple(tables)))


def _reliability_adjusted(config: RunConfig, like: RunConfig) -> RunConfig:
  config = _prioritized(config)
  priority = like.replay.priority
  if priority.criterion != "reaper":
    exponent, reliability_exponent = _REAPER_EXPONENTS
    priority = dataclasses.replace(
      priority, criterion="reaper", exponent=exponent, reliability_exponent=reliability_exponent
    )
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, sampling="memory", priority=priority))


def _mixing(config: RunConfig, kind: MixupKind, neighbors: int | None = None) -> RunConfig:
  mixup = dataclasses.replace(config.learner.mixup, kind=kind)
  if neighbors is not None:
    mixup = dataclasses.replace(mixup, neighbors=dataclasses.replace(mixup.neighbors, count=neighbors))
  sampling = "memory" if mixup.needs_memory else config.replay.sampling
  return dataclasses.replace(
    config,
    replay=dataclasses.replace(config.replay, sampling=sampling),
    learner=dataclasses.replace(config.learner, mixup=mixup),
  )


def _without_rules(config: RunConfig) -> RunConfig:
  refer = dataclasses.replace(config.learner.refer, rules="watched" if config.learner.refer.is_on else "off")
  return dataclasses.replace(config, learner=dataclasses.replace(config.learner, refer=refer))


def _by_rules(config: RunConfig, rules: Rules) -> RunConfig:
  refer = dataclasses.replace(config.learner.refer, rules=rules)
  return dataclasses.replace(
    config,
    replay=dataclasses.replace(config.replay, sampling="memory"),
    learner=dataclasses.replace(config.learner, refer=refer),
  )


def _by_td_error(config: RunConfig) -> RunConfig:
  priority = dataclasses.replace(config.replay.priority, criterion="td_error")
  return dataclasses.replace(config, replay=dataclasses.replace(config.replay, priority=priority))


def _unshaped(config: RunConfig) -> RunConfig:
  environment = dataclasses.replace(config.environment, potential="", potential_arguments={})
  return dataclasses.replace(config, environment=environment)


def _shaped(config: RunConfig, like: RunConfig) -> RunConfig:
  if not like.environment.potential:
    raise UserError(
      f"The config {like.name!r} has no potential to shape rewards by: name one in environment.potential, for example "
      "environments.potentials:AtCells."
    )
  return dataclasses.replace(config, environment=like.environment)


def _watched(config: RunConfig) -> tuple[EventSpec, ...]:
  """The events that the evaluator needs, without a table."""
  needed = [event for event in config.events if event.name == config.evaluator.solved_event]
  return tuple(dataclasses.replace(event, table=None) for event in needed)


def _goal(config: RunConfig) -> EventSpec:
  for event in config.events:
    if event.name == config.evaluator.solved_event and event.table is not None:
      return event
  raise UserError(
    f"The config {config.name!r} has no goal event: name one that feeds a table in evaluator.solved_event."
  )

"""`RunConfig`: the whole config of a run, in parts that each belong to one room.

A config is frozen and checks itself when it is built, so that a mistake is a message at the start and not a traceback an hour
later. The run's manifest holds it as JSON (see `configs.serialization`).
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from configs.checks import MOST_SECONDS, require, require_positive, require_seconds, require_whole, shown
from configs.consoles import CONSOLE, ConsolesConfig
from configs.learning import LearnerConfig
from configs.schedules import linear
from configs.specs import MAX_EVENTS, EventSpec, TableSpec, check_name, is_reference

# Names of the server's own tables; see docs/contract.md.
RESERVED_TABLES = ("policy", "run", "episodes", "heartbeats", "histories", "pace", "status")
# The writer keeps every step of the longest history alive, so its cost grows with the history.
MAX_HISTORY = 10_000
# What is beyond these is a slip of the keyboard, and would only show when memory or processes run out.
MOST_STEPS_PER_UPDATE = 1e6
MOST_UNITS = 65_536
MOST_WORKERS = 1_000
MOST_ENVIRONMENTS = 10_000
MOST_ROWS_PER_BLOCK = 10_000_000

NewItems = Literal["largest", "mean"]
Criterion = Literal["td_error", "reaper"]
Normalization = Literal["batch", "buffer"]
Sampling = Literal["server", "memory"]
Unit = Literal["steps", "episodes"]
Shares = Literal["fixed", "td_error"]
NormalizeBy = Literal["draws", "first_rows"]
Check = Literal["first", "always", "never"]
Schedule = Literal["seconds", "updates"]
Activation = Literal["relu", "softsign"]
Initializer = Literal["fan_in", "glorot"]
# Who plays in an environment.
Part = Literal["actor", "evaluator"]


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig:
  """The environment, and the shaping of its rewards.

  Attributes:
    name: a built-in world ("three_rooms"), a gymnasium id ("CartPole-v1"), or `module:function` of a factory, also of a vector
      environment (docs/worlds.md).
    arguments: keyword arguments of the environment, as JSON values.
    potential: `module:name` of phi for potential-based shaping, empty for none: the learner gets r + gamma phi(s') - phi(s),
      where gamma is `learner.discount`. Reported returns are never shaped. See `environments.shaping`.
    potential_arguments: keyword arguments of the potential's class (or function), as JSON values.
    check: which observations and actions are compared with the environment's spaces: those of each environment's "first" steps,
      "always" all of them, or "never" any. See `environments.answers`.
    timeout_seconds: how long `reset` or `step` may take before the panel names the worker and the call; after as long again the
      worker ends. 0 waits for ever.
  """

  name: str = "three_rooms"
  arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  potential: str = ""
  potential_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  check: Check = "first"
  timeout_seconds: float = 60.0

  def __post_init__(self) -> None:
    require(bool(self.name), "environment.name is empty: name an environment, a gymnasium id or 'module:function'.")
    require(
      not self.potential or is_reference(self.potential),
      f"environment.potential is {self.potential!r}: write it as 'module:name', for example "
      "'environments.potentials:AtCells', or leave it empty.",
    )
    require(
      bool(self.potential) or not self.potential_arguments,
      f"environment.potential_arguments are {dict(self.potential_arguments)}, but environment.potential is empty: name one.",
    )
    require(
      self.check in get_args(Check), f"environment.check is {self.check!r}: use one of {', '.join(get_args(Check))}."
    )
    require(
      math.isfinite(self.timeout_seconds) and self.timeout_seconds >= 0,
      f"environment.timeout_seconds is {self.timeout_seconds}: it must be a finite number, 0 (to wait for ever) or more.",
    )


@dataclasses.dataclass(frozen=True)
class PriorityConfig:
  """Prioritised replay in tables with the selectors `prioritized` and `ranked`: PER (Schaul et al., 2016, Section 3.3), ReaPER.

  With PER an item is drawn with probability P = p^alpha / sum p^alpha, where p = |TD error| + epsilon. ReaPER multiplies p^alpha
  by R^omega, the reliability of the item's target. In a ranked table p is 1 / rank, where the rank of a row is its place when the
  table's rows are sorted by |TD error|, the largest first. See docs/algorithms.md. Importance weights (N P)^-beta, divided by
  the largest, correct the bias of these draws.

  Attributes:
    criterion: what items of prioritised tables are drawn by: "td_error" (PER), or "reaper", for which the learner needs its own
      memory.
    exponent: alpha; 0 draws uniformly.
    reliability_exponent: omega of ReaPER; 0 makes it PER.
    normalize: the largest weight, by which all are divided, is that of the "batch", or of the "buffer": of all rows of the tables
      that take part. The server does not know the latter, so it needs the learner's own memory.
    importance_exponent: beta at the start; 0 corrects nothing.
    final_importance_exponent: value that beta reaches linearly; None keeps it constant.
    importance_updates: gradient steps until beta reaches its final value.
    epsilon: added to every |TD error|, so that an item without error can still be drawn; ranks need none.
    new_items: the priority of a table's new items: `largest`, the largest that its rows got lately (the paper's maximum, of
      which a thousand updates forget all but 37 %), or `mean`, a running mean of theirs over some ten updates. ReaPER always
      takes the largest in the table, and a ranked table that of rank 1.
    ranking_period_updates: gradient steps after which the ranks of all rows of ranked tables are made anew. Between, a row that
      is learned from gets the rank that its new error has among those of the last time.
  """

  criterion: Criterion = "td_error"
  exponent: float = 0.65
  reliability_exponent: float = 0.2
  normalize: Normalization = "batch"
  importance_exponent: float = 0.4
  final_importance_exponent: float | None = 1.0
  importance_updates: int = 10_000
  epsilon: float = 1e-3
  new_items: NewItems = "mean"
  ranking_period_updates: int = 100

  def __post_init__(self) -> None:
    require(
      self.new_items in get_args(NewItems),
      f"replay.priority.new_items is {self.new_items!r}: use one of {', '.join(get_args(NewItems))}.",
    )
    require(
      self.criterion in get_args(Criterion),
      f"replay.priority.criterion is {self.criterion!r}: use one of {', '.join(get_args(Criterion))}.",
    )
    require(
      self.normalize in get_args(Normalization),
      f"replay.priority.normalize is {self.normalize!r}: use one of {', '.join(get_args(Normalization))}.",
    )
    require(0 <= self.exponent <= 1, f"replay.priority.exponent is {self.exponent}: it must lie in [0, 1].")
    require(
      0 <= self.reliability_exponent <= 1,
      f"replay.priority.reliability_exponent is {self.reliability_exponent}: it must lie in [0, 1].",
    )
    final = () if self.final_importance_exponent is None else (self.final_importance_exponent,)
    for value in (self.importance_exponent, *final):
      require(0 <= value <= 1, f"An importance exponent of replay.priority is {value}: it must lie in [0, 1].")
    require_positive("replay.priority", epsilon=self.epsilon)
    require_whole("replay.priority", importance_updates=self.importance_updates)
    require_whole("replay.priority", ranking_period_updates=self.ranking_period_updates)

  def importance_exponent_at(self, updates: int) -> float:
    """beta after this many gradient steps."""
    return linear(self.importance_exponent, self.final_importance_exponent, updates / self.importance_updates)


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
  """The replay server: its tables and how sampling is tied to inserting.

  Attributes:
    capacity: in transitions, over all tables; a table without a capacity of its own gets capacity * probability.
    default: the table of every transition.
    tables: the event tables, in the order of their rows in a batch.
    priority: settings of the tables with the selectors `prioritized` and `ranked`.
    sampling: where the learner draws its batches: from the tables of the "server", or from its own "memory", to which the server
      then passes every transition once. A run keeps the one that it began with.
    unit: "steps", which enter the tables when they come, or "episodes": steps enter when their episode has ended, and the default
      table lets it go as a whole (ReF-ER, Appendix C). Single steps are drawn either way. Needs sampling="memory".
    at_least_one: whether every ready table has a row in every batch, however small its share (SSET, Section 5.6).
    shares: how the event tables divide their part of a batch: "fixed", by their probabilities, or "td_error", in proportion to
      the mean |TD error| of the rows drawn from them lately. The latter needs sampling="memory" and two event tables.
    environment_steps_per_update: environment steps per gradient step, whichever tables take part in batches. In a distributed run
      the server enforces the ratio; an inline run keeps it exactly. None lets both sides run free.
    steps_per_round: transitions that the learner reads at once, before all the updates that they make due: with 256 and
      `environment_steps_per_update=2`, 256 and then 128 updates. An inline run takes its steps so. Needs sampling="memory".
    insert_tolerance_steps: environment steps by which the two sides may drift apart before one waits; at least three blocks. With
      sampling="memory", transitions that may wait on the server for the learner.
    checkpoint_period_seconds: time between two snapshots of the run; another is written when the run stops.
    snapshots_kept: how many of the newest snapshots are kept. While one is written, the disk holds one more.
  """

  capacity: int = 20_000
  default: TableSpec = TableSpec("default", probability=1.0, min_size=1_000)
  tables: tuple[TableSpec, ...] = ()
  priority: PriorityConfig = PriorityConfig()
  sampling: Sampling = "server"
  unit: Unit = "steps"
  at_least_one: bool = False
  shares: Shares = "fixed"
  environment_steps_per_update: float | None = 10.0
  steps_per_round: int = 1
  insert_tolerance_steps: int = 2_000
  checkpoint_period_seconds: float = 600.0
  snapshots_kept: int = 2

  def __post_init__(self) -> None:
    require_whole("replay", capacity=self.capacity, insert_tolerance_steps=self.insert_tolerance_steps)
    require_whole("replay", snapshots_kept=self.snapshots_kept, steps_per_round=self.steps_per_round)
    require_seconds("replay", checkpoint_period_seconds=self.checkpoint_period_seconds)
    if self.environment_steps_per_update is not None:
      require(
        1 / MOST_STEPS_PER_UPDATE <= self.environment_steps_per_update <= MOST_STEPS_PER_UPDATE,
        f"replay.environment_steps_per_update is {self.environment_steps_per_update}: it must be a number from "
        f"{1 / MOST_STEPS_PER_UPDATE:g} to {MOST_STEPS_PER_UPDATE:,.0f}, or none to let both sides run free.",
      )
    require(
      self.sampling in get_args(Sampling),
      f"replay.sampling is {self.sampling!r}: use one of {', '.join(get_args(Sampling))}.",
    )
    require(
      self.steps_per_round == 1 or self.environment_steps_per_update is not None,
      f"replay.steps_per_round is {shown(self.steps_per_round)}, but replay.environment_steps_per_update, by which the steps of "
      "a round make updates due, is none: set it.",
    )
    require(
      self.steps_per_round == 1 or self.sampling == "memory",
      f"replay.steps_per_round is {shown(self.steps_per_round)}, and only a learner with its own memory keeps to rounds: set "
      "replay.sampling to 'memory', or leave replay.steps_per_round at 1.",
    )
    require(self.unit in get_args(Unit), f"replay.unit is {self.unit!r}: use one of {', '.join(get_args(Unit))}.")
    require(
      self.unit == "steps" or self.sampling == "memory",
      "replay.unit is 'episodes', and the server lets each transition go by itself: set replay.sampling to 'memory', or leave "
      "replay.unit at 'steps'.",
    )
    self._check_priority()
    self._check_shares()
    names = [table.name for table in self.all_tables]
    require(len(set(names)) == len(names), f"Two tables share a name among {names}: give each its own.")
    for name in names:
      require(
        name not in RESERVED_TABLES, f"The table name {name!r} is reserved ({', '.join(RESERVED_TABLES)}): rename it."
      )
    total = sum(table.probability for table in self.all_tables)
    shares = ", ".join(f"{table.name} {table.probability:g}" for table in self.all_tables)
    require(
      math.isclose(total, 1.0, abs_tol=1e-6),
      f"The table probabilities sum to {total:g}, not 1 ({shares}): change them.",
    )
    for table in self.all_tables:
      require(
        self.capacity_of(table) >= table.min_size,
        f"Table {table.name!r} waits for {table.min_size} transitions but holds at most {self.capacity_of(table)} "
        "(replay.capacity times its probability): lower its min_size or raise replay.capacity.",
      )

  def _check_shares(self) -> None:
    require(
      self.shares in get_args(Shares), f"replay.shares is {self.shares!r}: use one of {', '.join(get_args(Shares))}."
    )
    if self.shares == "td_error":
      require(
        self.sampling == "memory",
        "replay.shares is 'td_error', and only a learner with its own memory changes shares: set replay.sampling to 'memory', or "
        "replay.shares to 'fixed'.",
      )
      require(
        len(self.tables) > 1,
        f"replay.shares is 'td_error', which divides one part of a batch among event tables, and there are {len(self.tables)}: "
        "add some, or set replay.shares to 'fixed'.",
      )

  def _check_priority(self) -> None:
    priority = self.priority
    if priority.criterion == "reaper":
      require(
        self.sampling == "memory",
        "replay.priority.criterion is 'reaper', by which a TD error changes the priorities of its whole episode, and the server "
        "cannot do that: set replay.sampling to 'memory'.",
      )
      for table in self.all_tables:
        require(
          table.selector == "prioritized",
          f"replay.priority.criterion is 'reaper', and table {table.name!r} has the selector {table.selector!r}, which does not "
          "use it: give every table the selector 'prioritized'.",
        )
    self._check_ranked()
    require(
      priority.normalize == "batch" or self.sampling == "memory",
      "replay.priority.normalize is 'buffer', and only the learner's own memory knows the largest weight of all rows: set "
      "replay.sampling to 'memory', or normalize to 'batch'.",
    )

  def _check_ranked(self) -> None:
    by_selector = {table.selector: table.name for table in self.all_tables}
    if "ranked" not in by_selector:
      return
    require(
      self.sampling == "memory",
      f"Table {by_selector['ranked']!r} has the selector 'ranked', and the server knows no ranks: set replay.sampling to "
      "'memory', or use 'prioritized'.",
    )
    require(
      "prioritized" not in by_selector,
      f"Table {by_selector['ranked']!r} has the selector 'ranked' and table {by_selector.get('prioritized')!r} 'prioritized', "
      "and a run has one kind of priorities: give both the same.",
    )

  @property
  def all_tables(self) -> tuple[TableSpec, ...]:
    """The default table and the event tables, in layout order."""
    return (self.default, *self.tables)

  def capacity_of(self, table: TableSpec) -> int:
    """kappa_i, the table's capacity in transitions."""
    return table.capacity if table.capacity is not None else max(1, round(self.capacity * table.probability))


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
  """The networks: MLPs. The fields hold for value networks, policies and critics alike.

  Attributes:
    hidden_sizes: units of each hidden layer.
    normalize_observations: whether observations are normalised by their mean and standard deviation.
    normalize_by: what the learner estimates them from: "draws", all rows that it draws from the default table, or "first_rows",
      those that the table holds before the first update (ReF-ER, Eqs. 14 and 15), for which it needs its own memory.
    activation: of hidden layers: "relu", max(x, 0), or "softsign", x / (1 + |x|).
    initializer: what hidden layers' weights are drawn from at first: "fan_in", a truncated normal with a standard deviation of
      1/sqrt(inputs), or "glorot", uniform in +-sqrt(6 / (inputs + outputs)) (Glorot & Bengio, 2010, Eq. 16).
    output_scale: s; an output layer's weights are uniform in +-s/sqrt(inputs) at first. None draws them as "fan_in" does.
  """

  hidden_sizes: tuple[int, ...] = (256,)
  normalize_observations: bool = False
  normalize_by: NormalizeBy = "draws"
  activation: Activation = "relu"
  initializer: Initializer = "fan_in"
  output_scale: float | None = None

  def __post_init__(self) -> None:
    for name, value, known in (
      ("activation", self.activation, get_args(Activation)),
      ("initializer", self.initializer, get_args(Initializer)),
    ):
      require(value in known, f"network.{name} is {value!r}: use one of {', '.join(known)}.")
    if self.output_scale is not None:
      require_positive("network", output_scale=self.output_scale)
    for size in self.hidden_sizes:
      require(
        1 <= size <= MOST_UNITS,
        f"network.hidden_sizes has a layer of {shown(size)} units: each layer needs at least 1, and at most {MOST_UNITS:,}.",
      )
    require(
      self.normalize_by in get_args(NormalizeBy),
      f"network.normalize_by is {self.normalize_by!r}: use one of {', '.join(get_args(NormalizeBy))}.",
    )
    require(
      self.normalize_by == "draws" or self.normalize_observations,
      "network.normalize_by has no effect without network.normalize_observations: set that to true, or leave normalize_by out.",
    )


@dataclasses.dataclass(frozen=True)
class ActorConfig:
  """The rollout workers. The settings of their exploration belong to the algorithm (`learner.algorithm`).

  Attributes:
    workers: rollout worker processes that a local run starts (an inline run has one).
    environments: of each worker, which steps them in turn; a vector environment has so many sub-environments.
    random_steps: steps of the run, over all workers, that take random actions before the policy is used.
    policy_period_steps: environment steps after which a worker takes the newest policy within an episode; None keeps one policy
      for a whole episode (SSET, Appendix A.3).
    weights_timeout_seconds: how long a worker waits for the first policy.
    environment_arguments: of the workers' environments, as JSON values: they replace and extend `environment.arguments`. They
      must not change the spaces.
  """

  workers: int = 2
  environments: int = 1
  random_steps: int = 1_000
  policy_period_steps: int | None = None
  weights_timeout_seconds: float = 120.0
  environment_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    require_whole("actor", least=0, most=MOST_WORKERS, workers=self.workers)
    require_whole("actor", most=MOST_ENVIRONMENTS, environments=self.environments)
    require_seconds("actor", weights_timeout_seconds=self.weights_timeout_seconds)
    if self.policy_period_steps is not None:
      require_whole("actor", policy_period_steps=self.policy_period_steps)
    require_whole("actor", least=0, random_steps=self.random_steps)


@dataclasses.dataclass(frozen=True)
class EvaluatorConfig:
  """The evaluator: it runs the policy without the exploration of training, in its own environment.

  Attributes:
    enabled: whether a local run has an evaluator.
    episodes: per evaluation; each evaluation takes a policy version that was not evaluated before.
    epsilon: probability of a random action; 0 for the greedy policy. A small one (0.05 in Mnih et al., 2015) tells more about a
      policy if a single wrong value makes the greedy one turn on the spot until the episode ends.
    schedule: what a distributed run's evaluations go by: "seconds" evaluates the newest policy, `period_seconds` after the last
      evaluation began; "updates" the first that is published at or after each multiple of `period_updates`. An inline run always
      goes by updates, exactly.
    period_seconds: minimum time between two evaluations that go by seconds.
    period_updates: gradient steps between two evaluations that go by updates.
    solved_event: event that must occur in every episode of an evaluation for it to count as solved; empty for none.
    solved_return: mean return that an evaluation must reach to count as solved; None for none.
    solved_evaluations: solved evaluations in a row that end the run; 0 lets it use its whole budget.
    video_period_seconds: minimum time between two animations of a greedy episode, in `videos/` and in TensorBoard, while the run
      goes on; None makes none.
    environment_arguments: of the environment of evaluations, and of whatever else plays a policy as they do, as JSON values: they
      replace and extend `environment.arguments`. They must not change the spaces.
  """

  enabled: bool = True
  episodes: int = 1
  epsilon: float = 0.0
  schedule: Schedule = "seconds"
  period_seconds: float = 1.0
  period_updates: int = 500
  solved_event: str = ""
  solved_return: float | None = None
  solved_evaluations: int = 4
  video_period_seconds: float | None = None
  environment_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    require_whole("evaluator", episodes=self.episodes, period_updates=self.period_updates)
    require_whole("evaluator", least=0, solved_evaluations=self.solved_evaluations)
    require(
      self.schedule in get_args(Schedule),
      f"evaluator.schedule is {self.schedule!r}: use one of {', '.join(get_args(Schedule))}.",
    )
    require(
      self.solved_return is None or math.isfinite(self.solved_return),
      f"evaluator.solved_return is {self.solved_return}: it must be a finite number, or none.",
    )
    require(0 <= self.epsilon <= 1, f"evaluator.epsilon is {self.epsilon}: it must lie in [0, 1].")
    require(
      0 <= self.period_seconds <= MOST_SECONDS,
      f"evaluator.period_seconds is {self.period_seconds}: it must be a number of seconds from 0 to {MOST_SECONDS:,.0f}.",
    )

    if self.video_period_seconds is not None:
      require_seconds("evaluator", video_period_seconds=self.video_period_seconds)
      require(
        self.enabled,
        "evaluator.video_period_seconds is set, but the evaluator, which records the videos, is switched off: set "
        "evaluator.enabled to true.",
      )

  @property
  def has_goal(self) -> bool:
    """Whether the config says what a solved evaluation is."""
    return bool(self.solved_event) or self.solved_return is not None

  @property
  def streak_to_solve(self) -> int:
    """Solved evaluations in a row that end the run; 0 if only its budget does."""
    return self.solved_evaluations if self.has_goal else 0


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """A run.

  Attributes:
    name: of the experiment; run directories lie in `runs/<name>/`.
    seed: the seed that every role's seed is derived from.
    environment_steps: the budget, in environment steps over all workers.
    method: name of the method of the comparison that made this config (`configs.methods`), or any label of yours; empty for
      none. It changes nothing in the run: `slipstream runs` and `slipstream report` show it.
  """

  name: str = "run"
  seed: int = 0
  environment_steps: int = 1_000_000
  method: str = ""
  environment: EnvironmentConfig = EnvironmentConfig()
  events: tuple[EventSpec, ...] = ()
  replay: ReplayConfig = ReplayConfig()
  network: NetworkConfig = NetworkConfig()
  actor: ActorConfig = ActorConfig()
  learner: LearnerConfig = LearnerConfig()
  evaluator: EvaluatorConfig = EvaluatorConfig()
  consoles: ConsolesConfig = ConsolesConfig()

  def __post_init__(self) -> None:
    check_name("Run", self.name)
    if self.method:
      check_name("Method", self.method)
    require_whole("", environment_steps=self.environment_steps)
    require(0 <= self.seed < 2**31, f"seed is {shown(self.seed)}: it must lie in [0, 2^31).")
    self._check_events()
    self._check_sampling()
    self._check_consoles()
    self._check_schedule()
    self.learner.algorithm.check_network(self.network.hidden_sizes)
    self._check_bias_correction()
    self._check_mixup()
    self._check_own_memory()
    self._check_behaviour()
    require(
      not self.learner.cagrad.in_use or bool(self.replay.tables),
      "learner.cagrad combines the gradients of several tables, and there is only the default one: add event tables, or "
      "leave learner.cagrad.coefficient at 0.",
    )

  def _check_events(self) -> None:
    names = [event.name for event in self.events]
    require(len(set(names)) == len(names), f"Two events share a name among {names}: give each its own.")
    require(len(names) <= MAX_EVENTS, f"There are {len(names)} events: a run can have {MAX_EVENTS}.")
    tables = {table.name: self.replay.capacity_of(table) for table in self.replay.tables}
    for event in self.events:
      if event.table is None:
        continue
      require(
        event.table in tables,
        f"Event {event.name!r} sends its history to table {event.table!r}, which is not among replay.tables "
        f"({', '.join(tables) or 'none'}): add the table or name another, or none if it is only to be watched.",
      )
      require(
        event.history <= min(tables[event.table], MAX_HISTORY),
        f"Event {event.name!r} has a history of {event.history} steps, but table {event.table!r} holds "
        f"{tables[event.table]} transitions and a writer keeps at most {MAX_HISTORY} steps: shorten the history.",
      )
    fed = {event.table for event in self.events}
    for name in tables:
      require(name in fed, f"No event feeds table {name!r}: add an event for it or remove the table.")
    solved_event = self.evaluator.solved_event
    require(
      not solved_event or solved_event in names,
      f"evaluator.solved_event is {solved_event!r}, which is not among the events ({', '.join(names) or 'none'}): add it or "
      "name another.",
    )

  def _check_schedule(self) -> None:
    # A policy is published after the block in which it is due.
    published = max(self.learner.publish_period_updates, self.learner.updates_per_block)
    require(
      self.evaluator.schedule != "updates" or self.evaluator.period_updates >= published,
      f"evaluator.schedule is 'updates', and evaluator.period_updates is {self.evaluator.period_updates}, but the learner "
      f"publishes a policy only every {published} updates (learner.publish_period_updates, learner.updates_per_block): raise "
      "evaluator.period_updates or lower those.",
    )

  def _check_sampling(self) -> None:
    largest = max(self.replay.capacity_of(table) for table in self.replay.all_tables)
    require(
      self.learner.batch_size <= 100 * largest,
      f"learner.batch_size is {shown(self.learner.batch_size)}, far more than the {largest} transitions of the largest table: "
      "lower it.",
    )
    rows = self.learner.batch_size * self.learner.updates_per_block
    require(
      rows <= MOST_ROWS_PER_BLOCK,
      f"learner.updates_per_block is {shown(self.learner.updates_per_block)}, which makes blocks of {shown(rows)} rows, more "
      f"than {MOST_ROWS_PER_BLOCK:,}: lower it or learner.batch_size.",
    )
    tables = len(self.replay.all_tables)
    require(
      not self.replay.at_least_one or self.learner.batch_size >= tables,
      f"replay.at_least_one asks for a row of each of {tables} tables in batches of {self.learner.batch_size}: raise "
      "learner.batch_size.",
    )
    require(
      self.learner.n_step <= MAX_HISTORY,
      f"learner.n_step is {shown(self.learner.n_step)}: at most {MAX_HISTORY} steps can be kept, so lower it.",
    )

  def _check_consoles(self) -> None:
    consoles, players = self.consoles.size, self.actor.workers + self.evaluator.enabled
    require(
      not consoles or consoles >= players,
      f"The run has {self.actor.workers} workers{' and an evaluator' if self.evaluator.enabled else ''}, and {consoles} "
      "consoles: give it a console for each, or lower actor.workers.",
    )

  def _check_bias_correction(self) -> None:
    correction = self.learner.bias_correction
    if correction == "none":
      return
    require(
      bool(self.replay.tables),
      f"learner.bias_correction is {correction!r}, and there are no event tables whose bias it would correct: add some, or "
      "leave it at 'none'.",
    )
    for table in self.replay.all_tables:
      require(
        table.selector == "uniform" or table.draws_by_priority,
        f"learner.bias_correction is {correction!r}, and table {table.name!r} has the selector {table.selector!r}: a "
        "correction needs the probability of each draw, so use 'uniform', 'prioritized' or 'ranked'.",
      )
    if correction == "counts":
      require(
        self.learner.algorithm.ACTIONS == "discrete",
        "learner.bias_correction is 'counts', which counts pairs of state and action, but the actions of "
        f"{self.learner.algorithm.NAME!r} are continuous: use 'balance' or 'priority_sum'.",
      )
      require(
        self.replay.default.selector == "uniform",
        "learner.bias_correction is 'counts', which needs uniform draws from the default table: give that table the selector "
        "'uniform', or use 'balance' or 'priority_sum'.",
      )

  def _check_own_memory(self) -> None:
    """What needs the learner's own memory."""
    algorithm = self.learner.algorithm.NAME
    for is_asked_for, what in (
      (self.learner.scale_rewards, "learner.scale_rewards is true"),
      (self.network.normalize_by == "first_rows", "network.normalize_by is 'first_rows'"),
      (self.learner.refer.is_on, f"learner.refer.rules is {self.learner.refer.rules!r}"),
      (algorithm == "v_racer", "learner.algorithm is 'v_racer'"),
    ):
      require(
        not is_asked_for or self.replay.sampling == "memory",
        f"{what}, which needs a look at all stored steps, and the server offers none: set replay.sampling to 'memory'.",
      )
    require(
      algorithm != "v_racer" or self.replay.unit == "episodes",
      "learner.algorithm is 'v_racer', which estimates the returns of whole episodes: set replay.unit to 'episodes'.",
    )

  def _check_behaviour(self) -> None:
    """What goes with rows that hold their behaviour, for ReF-ER and V-RACER."""
    learner = self.learner
    require(
      not learner.stores_behaviour or self.actor.random_steps == 0,
      f"{learner.needs_behaviour}, which needs the Gaussian that each action was drawn from, and actor.random_steps is "
      f"{shown(self.actor.random_steps)}: random actions come from none, so set it to 0.",
    )
    require(
      learner.algorithm.NAME != "v_racer" or not learner.cagrad.in_use,
      "learner.cagrad needs a network of linear layers, and V-RACER's deviation is in none: leave learner.cagrad.coefficient at "
      "0.",
    )

  def _check_mixup(self) -> None:
    mixup = self.learner.mixup
    if mixup.kind == "none":
      return
    require(
      self.learner.algorithm.ACTIONS == "continuous",
      f"learner.mixup.kind is {mixup.kind!r}, which changes actions, but those of {self.learner.algorithm.NAME!r} are discrete: "
      "use an algorithm with continuous ones, such as 'sac', or leave it at 'none'.",
    )
    require(
      not mixup.needs_memory or self.replay.sampling == "memory",
      f"learner.mixup.kind is {mixup.kind!r}, which looks for other rows, and the server cannot do that: set replay.sampling to "
      "'memory'.",
    )
    least, count = self.replay.default.min_size, mixup.neighbors.count
    require(
      mixup.kind != "neighbors" or count < least,
      f"learner.mixup.neighbors.count is {count}, but learning begins with {least} transitions: lower it, or raise the min_size "
      f"of table {self.replay.default.name!r}.",
    )

  @property
  def of_workers(self) -> "RunConfig":
    """This config with the workers' environment: its arguments with those of `actor.environment_arguments` in their place."""
    return self._with_environment(self.actor.environment_arguments)

  @property
  def of_evaluator(self) -> "RunConfig":
    """This config with the evaluator's environment, likewise."""
    return self._with_environment(self.evaluator.environment_arguments)

  def _with_environment(self, arguments: Mapping[str, Any]) -> "RunConfig":
    if not arguments:
      return self
    merged = {**self.environment.arguments, **arguments}
    return dataclasses.replace(self, environment=dataclasses.replace(self.environment, arguments=merged))

  def with_arguments(self, part: Part, arguments: Mapping[str, Any]) -> "RunConfig":
    """This config with more `environment_arguments` of the workers or the evaluator, in place of those of the same names."""
    return self._with_own(part, {**getattr(self, part).environment_arguments, **arguments})

  def _with_own(self, part: Part, arguments: Mapping[str, Any]) -> "RunConfig":
    changed = dataclasses.replace(getattr(self, part), environment_arguments=arguments)
    return dataclasses.replace(self, **{part: changed})

  @property
  def worker_count(self) -> int:
    """How many workers a local run starts: with consoles one for each, but for the evaluator's."""
    return self.consoles.size - self.evaluator.enabled if self.consoles.size else self.actor.workers

  def on_console(self, part: Part, address: str) -> "RunConfig":
    """This config for a worker, or for the evaluator, that plays on the console at `address`.

    The console has the run's environment, and gets its arguments as options.
    """
    own = (self.of_workers if part == "actor" else self.of_evaluator).environment
    if own.name == CONSOLE:
      return self.with_arguments(part, {"address": address})
    arguments = {"address": address, "world": own.name, "options": own.arguments}
    environment = dataclasses.replace(self.environment, name=CONSOLE, arguments=arguments)
    return dataclasses.replace(self._with_own(part, {}), environment=environment)

  @property
  def max_history(self) -> int:
    """The longest history that an event sends to a table, in steps; 1 if none does."""
    return max((event.history for event in self.events if event.table is not None), default=1)

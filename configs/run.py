"""`RunConfig`: everything that a run is made from, in parts that each belong to one room.

A config is frozen and checks itself when it is built, so that a mistake is a sentence at the start and not a traceback an
hour later. It travels as JSON (see `configs.serialization`) in the run's manifest.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from configs.errors import UserError
from configs.schedules import linear
from configs.specs import MAX_EVENTS, EventSpec, TableSpec, check_name, is_reference

Algorithm = Literal["ddqn", "sac", "qr_sac", "td3"]
BiasCorrection = Literal["none", "counts", "priority_sum", "balance"]

# Tables that the server keeps for itself; see docs/contract.md.
RESERVED_TABLES = ("policy", "run", "episodes", "heartbeats", "histories", "status")
# The writer keeps every step of the longest history alive, and its cost grows with them.
MAX_HISTORY = 10_000


def _require(condition: bool, sentence: str) -> None:
  if not condition:
    raise UserError(sentence)


def _require_positive(part: str, **values: float) -> None:
  for name, value in values.items():
    _require(math.isfinite(value) and value > 0, f"{part}.{name} is {value}: it must be a finite number above 0.")


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig:
  """Which environment.

  Attributes:
    name: a name of `environments.make` ("three_rooms"), a gymnasium id ("CartPole-v1"), or `module:function` of a factory.
    arguments: its keyword arguments, JSON values.
    potential: `module:name` of phi, for potential-based shaping: the learner gets r + gamma phi(s') - phi(s), where gamma is
      `learner.discount`. Empty for none. See `environments.shaping`; returns that are reported are never shaped.
    potential_arguments: keyword arguments of its class (or function), JSON values.
  """

  name: str = "three_rooms"
  arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  potential: str = ""
  potential_arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    _require(bool(self.name), "environment.name is empty: name an environment, a gymnasium id or 'module:function'.")
    _require(
      not self.potential or is_reference(self.potential),
      f"environment.potential is {self.potential!r}: write it as 'module:name', for example "
      "'environments.potentials:AtCells', or leave it empty.",
    )
    _require(
      bool(self.potential) or not self.potential_arguments,
      f"environment.potential_arguments are {dict(self.potential_arguments)} and there is no potential: name one.",
    )


@dataclasses.dataclass(frozen=True)
class PriorityConfig:
  """Prioritised experience replay in the tables with the selector `prioritized` (Schaul et al., 2016, Section 3.3).

  An item is drawn with probability p^alpha / sum p^alpha, where p = |TD error| + epsilon. Weights (N P)^-beta, divided by the
  largest of the batch, correct for it.

  Attributes:
    exponent: alpha; 0 draws uniformly.
    importance_exponent: beta at the start; 0 corrects nothing.
    final_importance_exponent: the value it reaches, linearly; None keeps `importance_exponent`.
    importance_updates: gradient steps over which it gets there.
    epsilon: keeps an item that is predicted without error from never being drawn again.
  """

  exponent: float = 0.65
  importance_exponent: float = 0.4
  final_importance_exponent: float | None = 1.0
  importance_updates: int = 10_000
  epsilon: float = 1e-3

  def __post_init__(self) -> None:
    _require(0 <= self.exponent <= 1, f"replay.priority.exponent is {self.exponent}: it must lie in [0, 1].")
    final = () if self.final_importance_exponent is None else (self.final_importance_exponent,)
    for value in (self.importance_exponent, *final):
      _require(0 <= value <= 1, f"An importance exponent of replay.priority is {value}: it must lie in [0, 1].")
    _require_positive("replay.priority", epsilon=self.epsilon, importance_updates=self.importance_updates)

  def importance_exponent_at(self, updates: int) -> float:
    """beta after some gradient steps."""
    return linear(self.importance_exponent, self.final_importance_exponent, updates / self.importance_updates)


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
  """The replay server: its tables and how sampling is tied to inserting.

  Attributes:
    capacity: in transitions, over all tables; a table without a capacity of its own gets capacity * probability.
    default: the table of every transition.
    tables: the event tables, in the order in which they lie in a batch.
    priority: of the tables with the selector `prioritized`.
    at_least_one: every table that is ready has a row in every batch, however small its probability (SSET, Section 5.6).
    environment_steps_per_update: environment steps per gradient step. The server holds a distributed run to it (through
      samples per insert of the default table); an inline run does exactly this many. None lets both run free.
    insert_tolerance_steps: how many environment steps the two sides may drift apart before one waits.
    checkpoint_period_seconds: between two checkpoints of the tables; one more is written when the run stops.
  """

  capacity: int = 20_000
  default: TableSpec = TableSpec("default", probability=1.0, min_size=1_000)
  tables: tuple[TableSpec, ...] = ()
  priority: PriorityConfig = PriorityConfig()
  at_least_one: bool = False
  environment_steps_per_update: float | None = 10.0
  insert_tolerance_steps: int = 2_000
  checkpoint_period_seconds: float = 600.0

  def __post_init__(self) -> None:
    _require_positive("replay", capacity=self.capacity, checkpoint_period_seconds=self.checkpoint_period_seconds)
    _require_positive("replay", insert_tolerance_steps=self.insert_tolerance_steps)
    if self.environment_steps_per_update is not None:
      _require_positive("replay", environment_steps_per_update=self.environment_steps_per_update)
    names = [table.name for table in self.all_tables]
    _require(len(set(names)) == len(names), f"Two tables share a name among {names}: give each its own.")
    for name in names:
      _require(
        name not in RESERVED_TABLES, f"The table name {name!r} is reserved ({', '.join(RESERVED_TABLES)}): rename it."
      )
    total = sum(table.probability for table in self.all_tables)
    shares = ", ".join(f"{table.name} {table.probability:g}" for table in self.all_tables)
    _require(
      math.isclose(total, 1.0, abs_tol=1e-6),
      f"The table probabilities sum to {total:g}, not 1 ({shares}): change them.",
    )
    for table in self.all_tables:
      _require(
        self.capacity_of(table) >= table.min_size,
        f"Table {table.name!r} waits for {table.min_size} transitions but holds at most {self.capacity_of(table)} "
        "(replay.capacity times its probability): lower its min_size or raise replay.capacity.",
      )

  @property
  def all_tables(self) -> tuple[TableSpec, ...]:
    """The default table and the event tables, in layout order."""
    return (self.default, *self.tables)

  def capacity_of(self, table: TableSpec) -> int:
    """kappa_i in transitions."""
    return table.capacity if table.capacity is not None else max(1, round(self.capacity * table.probability))


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
  """The networks: MLPs of ReLU units.

  Attributes:
    hidden_sizes: units of each hidden layer, of value networks, policies and critics alike.
    dueling: whether double DQN's network has a stream for the state's value and one for advantages (Wang et al., 2016); the
      last hidden layer is then there twice.
    policy_dropout: share of the units of the policy's hidden layers that are left out in training (SAC and QR-SAC).
    normalize_observations: whether the networks see observations less their mean and by their deviation, which the learner
      measures on what it draws from the default table.
  """

  hidden_sizes: tuple[int, ...] = (256,)
  dueling: bool = False
  policy_dropout: float = 0.0
  normalize_observations: bool = False

  def __post_init__(self) -> None:
    for size in self.hidden_sizes:
      _require(size > 0, f"network.hidden_sizes is {self.hidden_sizes}: every layer needs at least one unit.")
    _require(
      not self.dueling or bool(self.hidden_sizes),
      "network.dueling splits the last hidden layer, and network.hidden_sizes is empty: give it a layer.",
    )
    _require(0 <= self.policy_dropout < 1, f"network.policy_dropout is {self.policy_dropout}: it must lie in [0, 1).")


@dataclasses.dataclass(frozen=True)
class ActorConfig:
  """The rollout workers.

  Attributes:
    workers: rollout worker processes that a local run starts (an inline run has one).
    environments: environments that each worker steps in turn.
    random_steps: steps of the whole run that are taken at random before the policy is used, shared by its workers.
    epsilon: of the epsilon-greedy policy of double DQN, at the start; other algorithms have noise of their own.
    final_epsilon: the value it falls to, linearly; None keeps `epsilon`.
    epsilon_decay_updates: gradient steps over which it falls.
    worker_epsilons: constant values for worker 0, 1, ... (in turn, where there are more workers); replaces the three above.
    action_noise: deviation of the Gaussian noise on TD3's actions, where these lie in [-1, 1].
    weights_timeout_seconds: how long a worker waits for the first policy.
  """

  workers: int = 2
  environments: int = 1
  random_steps: int = 1_000
  epsilon: float = 0.3
  final_epsilon: float | None = None
  epsilon_decay_updates: int = 10_000
  worker_epsilons: tuple[float, ...] = ()
  action_noise: float = 0.1
  weights_timeout_seconds: float = 120.0

  def __post_init__(self) -> None:
    _require(self.workers >= 0, f"actor.workers is {self.workers}: it must be 0 or more.")
    _require_positive("actor", environments=self.environments, epsilon_decay_updates=self.epsilon_decay_updates)
    _require_positive("actor", weights_timeout_seconds=self.weights_timeout_seconds)
    _require(self.random_steps >= 0, f"actor.random_steps is {self.random_steps}: it must be 0 or more.")
    final = () if self.final_epsilon is None else (self.final_epsilon,)
    for value in (self.epsilon, *final, *self.worker_epsilons):
      _require(0 <= value <= 1, f"An actor epsilon is {value}: it is a probability, from 0 to 1.")
    _require(
      math.isfinite(self.action_noise) and self.action_noise >= 0,
      f"actor.action_noise is {self.action_noise}: it must be a finite number, 0 or more.",
    )


@dataclasses.dataclass(frozen=True)
class CagradConfig:
  """Conflict-averse gradients over the tables' losses (SSET, Section 5.7; Liu et al., 2021); see docs/design.md.

  Attributes:
    coefficient: c at the start, in [0, 1); 0 is the average gradient, higher serves the worst-served table more.
    final_coefficient: the value it reaches, linearly; None keeps `coefficient`. The paper suggests 0: a high one learns
      faster at first and ends lower.
    updates: gradient steps over which it gets there.
  """

  coefficient: float = 0.0
  final_coefficient: float | None = None
  updates: int = 10_000

  def __post_init__(self) -> None:
    final = () if self.final_coefficient is None else (self.final_coefficient,)
    for value in (self.coefficient, *final):
      _require(0 <= value < 1, f"A coefficient of learner.cagrad is {value}: it must lie in [0, 1).")
    _require_positive("learner.cagrad", updates=self.updates)

  @property
  def in_use(self) -> bool:
    """Whether gradients are ever anything but the average."""
    return bool(self.coefficient or self.final_coefficient)

  def coefficient_at(self, updates: int) -> float:
    """c after some gradient steps."""
    return linear(self.coefficient, self.final_coefficient, updates / self.updates)


@dataclasses.dataclass(frozen=True)
class SacConfig:
  """Soft actor-critic, and QR-SAC; see docs/algorithms.md.

  Attributes:
    temperature: alpha, at the start where it is learned.
    learn_temperature: whether alpha follows the policy's entropy.
    target_entropy: that it keeps; None for minus the number of action dimensions.
    quantiles: N of each critic of QR-SAC.
    kappa: where QR-SAC's quantile Huber loss turns linear.
  """

  temperature: float = 1.0
  learn_temperature: bool = True
  target_entropy: float | None = None
  quantiles: int = 32
  kappa: float = 1.0

  def __post_init__(self) -> None:
    _require_positive("learner.sac", temperature=self.temperature, quantiles=self.quantiles, kappa=self.kappa)
    _require(
      self.target_entropy is None or math.isfinite(self.target_entropy),
      f"learner.sac.target_entropy is {self.target_entropy}: it must be a finite number, or none.",
    )


@dataclasses.dataclass(frozen=True)
class Td3Config:
  """TD3 (Fujimoto et al., 2018); see docs/algorithms.md.

  Attributes:
    policy_period: updates of the critics for one of the policy and of all target networks.
    target_noise: deviation of the noise on the target policy's actions.
    target_noise_clip: where that noise is cut off.
  """

  policy_period: int = 2
  target_noise: float = 0.2
  target_noise_clip: float = 0.5

  def __post_init__(self) -> None:
    _require_positive("learner.td3", policy_period=self.policy_period)
    for name, value in (("target_noise", self.target_noise), ("target_noise_clip", self.target_noise_clip)):
      _require(
        math.isfinite(value) and value >= 0, f"learner.td3.{name} is {value}: it must be a finite number, 0 or more."
      )


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
  """The learner.

  Attributes:
    algorithm: `ddqn` (double DQN) for discrete actions; `sac`, `qr_sac` (SAC with quantile critics) or `td3` for continuous ones.
    sac: of SAC and QR-SAC.
    td3: of TD3.
    batch_size: transitions per gradient step.
    learning_rate: of Adam.
    policy_learning_rate: of the policy, where there is one beside critics; None takes `learning_rate`.
    max_gradient_norm: length to which each network's gradient is cut; None for no limit.
    policy_l2: weight of the squares of the policy's weights in its loss (NMER's experiments with SAC).
    discount: gamma.
    n_step: steps in the return of a row.
    bias_correction: weights against the bias of event tables where outcomes are random: `none`, `counts` (SSET, Lemma 2, for
      few states), `priority_sum` (its form for continuous states) or `balance` (the exact ratio to uniform replay).
    cagrad: how the tables' gradients are combined.
    target_update_rate: share of the online weights that the target network takes over after each gradient step (Polyak).
    updates_per_block: K, gradient steps per call; a block of K batches is drawn at once.
    prefetch: draw the next block while this one is learned from. False with `updates_per_block=1` draws every batch
      afresh, after the last one's update.
    publish_period_updates: gradient steps between two policies sent to the workers.
    checkpoint_period_seconds: between two checkpoints; one more is written when the run stops.
    device: a TensorFlow device, as "CPU:0" or "GPU:0"; empty takes the first GPU, or else the CPU.
    threads: of TensorFlow; 0 takes half of the machine's cores, or one in an inline run.
  """

  algorithm: Algorithm = "ddqn"
  sac: SacConfig = SacConfig()
  td3: Td3Config = Td3Config()
  batch_size: int = 32
  learning_rate: float = 1e-3
  policy_learning_rate: float | None = None
  max_gradient_norm: float | None = None
  policy_l2: float = 0.0
  discount: float = 0.99
  n_step: int = 1
  bias_correction: BiasCorrection = "none"
  cagrad: CagradConfig = CagradConfig()
  target_update_rate: float = 0.01
  updates_per_block: int = 32
  prefetch: bool = True
  publish_period_updates: int = 64
  checkpoint_period_seconds: float = 60.0
  device: str = ""
  threads: int = 0

  def __post_init__(self) -> None:
    _require(self.threads >= 0, f"learner.threads is {self.threads}: it must be 0 or more.")
    _require(
      self.algorithm in get_args(Algorithm),
      f"learner.algorithm is {self.algorithm!r}: use one of {', '.join(get_args(Algorithm))}.",
    )
    _require(
      self.bias_correction in get_args(BiasCorrection),
      f"learner.bias_correction is {self.bias_correction!r}: use one of {', '.join(get_args(BiasCorrection))}.",
    )
    _require_positive("learner", batch_size=self.batch_size, learning_rate=self.learning_rate, n_step=self.n_step)
    for name, value in (
      ("policy_learning_rate", self.policy_learning_rate),
      ("max_gradient_norm", self.max_gradient_norm),
    ):
      if value is not None:
        _require_positive("learner", **{name: value})
    _require(
      math.isfinite(self.policy_l2) and self.policy_l2 >= 0,
      f"learner.policy_l2 is {self.policy_l2}: it must be a finite number, 0 or more.",
    )
    _require_positive(
      "learner", updates_per_block=self.updates_per_block, publish_period_updates=self.publish_period_updates
    )
    _require_positive("learner", checkpoint_period_seconds=self.checkpoint_period_seconds)
    _require(0 <= self.discount <= 1, f"learner.discount is {self.discount}: it must lie in [0, 1].")
    _require(
      0 < self.target_update_rate <= 1,
      f"learner.target_update_rate is {self.target_update_rate}: it must lie in (0, 1].",
    )


@dataclasses.dataclass(frozen=True)
class EvaluatorConfig:
  """The evaluator: a policy without training's exploration, in an environment of its own.

  Attributes:
    enabled: whether a local run has one.
    episodes: per evaluation, each evaluation with a policy version that was not evaluated before.
    epsilon: share of its actions that are drawn at random; 0 for the greedy policy. A few of them (.05 in Mnih et al., 2015) say
      more of a policy where a single wrong value would have it turn on the spot until the episode's end.
    period_seconds: least time between two evaluations of a distributed run.
    period_updates: gradient steps between two evaluations of an inline run.
    solved_event: an event that every episode of an evaluation must have seen for it to count as solved; empty for none.
    solved_return: a mean return that an evaluation must reach to count as solved; None for none.
    solved_evaluations: evaluations in a row that must be solved; the run then ends. 0 lets it go on to its budget.
  """

  enabled: bool = True
  episodes: int = 1
  epsilon: float = 0.0
  period_seconds: float = 1.0
  period_updates: int = 500
  solved_event: str = ""
  solved_return: float | None = None
  solved_evaluations: int = 4

  def __post_init__(self) -> None:
    _require_positive("evaluator", episodes=self.episodes, period_updates=self.period_updates)
    _require(
      self.solved_evaluations >= 0, f"evaluator.solved_evaluations is {self.solved_evaluations}: it must be 0 or more."
    )
    _require(0 <= self.epsilon <= 1, f"evaluator.epsilon is {self.epsilon}: it must lie in [0, 1].")
    _require(self.period_seconds >= 0, f"evaluator.period_seconds is {self.period_seconds}: it must be 0 or more.")

  @property
  def has_goal(self) -> bool:
    """Whether an evaluation can be solved."""
    return bool(self.solved_event) or self.solved_return is not None


@dataclasses.dataclass(frozen=True)
class RunConfig:
  """A run.

  Attributes:
    name: of the experiment; run directories lie below `runs/<name>/`.
    seed: from which every role's seed is derived.
    environment_steps: the budget, in environment steps over all workers.
  """

  name: str = "run"
  seed: int = 0
  environment_steps: int = 1_000_000
  environment: EnvironmentConfig = EnvironmentConfig()
  events: tuple[EventSpec, ...] = ()
  replay: ReplayConfig = ReplayConfig()
  network: NetworkConfig = NetworkConfig()
  actor: ActorConfig = ActorConfig()
  learner: LearnerConfig = LearnerConfig()
  evaluator: EvaluatorConfig = EvaluatorConfig()

  def __post_init__(self) -> None:
    check_name("Run", self.name)
    _require_positive("config", environment_steps=self.environment_steps)
    _require(0 <= self.seed < 2**31, f"seed is {self.seed}: it must lie in [0, 2^31).")
    self._check_events()
    self._check_sampling()
    self._check_algorithm()
    _require(
      self.learner.bias_correction == "none" or bool(self.replay.tables),
      f"learner.bias_correction is {self.learner.bias_correction!r}, and there are no event tables whose bias it would "
      "correct: add some, or leave it at 'none'.",
    )
    _require(
      not self.learner.cagrad.in_use or bool(self.replay.tables),
      "learner.cagrad combines the gradients of several tables, and there is only the default one: add event tables, or "
      "leave learner.cagrad.coefficient at 0.",
    )

  def _check_events(self) -> None:
    names = [event.name for event in self.events]
    _require(len(set(names)) == len(names), f"Two events share a name among {names}: give each its own.")
    _require(len(names) <= MAX_EVENTS, f"There are {len(names)} events: a run can have {MAX_EVENTS}.")
    tables = {table.name: self.replay.capacity_of(table) for table in self.replay.tables}
    for event in self.events:
      if event.table is None:
        continue
      _require(
        event.table in tables,
        f"Event {event.name!r} sends its history to table {event.table!r}, which is not among replay.tables "
        f"({', '.join(tables) or 'none'}): add the table or name another, or none if it is only to be watched.",
      )
      _require(
        event.history <= min(tables[event.table], MAX_HISTORY),
        f"Event {event.name!r} has a history of {event.history} steps, but table {event.table!r} holds "
        f"{tables[event.table]} transitions and a writer keeps at most {MAX_HISTORY} steps: shorten the history.",
      )
    fed = {event.table for event in self.events}
    for name in tables:
      _require(name in fed, f"No event feeds table {name!r}: add an event for it or remove the table.")
    solved_event = self.evaluator.solved_event
    _require(
      not solved_event or solved_event in names,
      f"evaluator.solved_event is {solved_event!r}, which is not among the events ({', '.join(names) or 'none'}).",
    )

  def _check_sampling(self) -> None:
    largest = max(self.replay.capacity_of(table) for table in self.replay.all_tables)
    _require(
      self.learner.batch_size <= 100 * largest,
      f"learner.batch_size is {self.learner.batch_size}, far more than the {largest} transitions of the largest table: lower it.",
    )
    tables = len(self.replay.all_tables)
    _require(
      not self.replay.at_least_one or self.learner.batch_size >= tables,
      f"replay.at_least_one asks for a row of each of {tables} tables in batches of {self.learner.batch_size}: raise "
      "learner.batch_size.",
    )
    _require(
      self.learner.n_step <= MAX_HISTORY,
      f"learner.n_step is {self.learner.n_step}: at most {MAX_HISTORY} steps can be kept.",
    )

  def _check_algorithm(self) -> None:
    """Refuses parameters that the run's algorithm would not use."""
    learner, network, actor = self.learner, self.network, self.actor
    for name, changed, algorithms in (
      ("network.dueling", network.dueling, ("ddqn",)),
      ("network.policy_dropout", network.policy_dropout > 0, ("sac", "qr_sac")),
      ("actor.worker_epsilons", bool(actor.worker_epsilons), ("ddqn",)),
      ("actor.final_epsilon", actor.final_epsilon is not None, ("ddqn",)),
      ("actor.action_noise", actor.action_noise != ActorConfig.action_noise, ("td3",)),
      ("learner.policy_learning_rate", learner.policy_learning_rate is not None, ("sac", "qr_sac", "td3")),
      ("learner.policy_l2", learner.policy_l2 > 0, ("sac", "qr_sac", "td3")),
      ("learner.sac", learner.sac != SacConfig(), ("sac", "qr_sac")),
      ("learner.sac.quantiles", learner.sac.quantiles != SacConfig.quantiles, ("qr_sac",)),
      ("learner.sac.kappa", learner.sac.kappa != SacConfig.kappa, ("qr_sac",)),
      ("learner.td3", learner.td3 != Td3Config(), ("td3",)),
    ):
      _require(
        not changed or learner.algorithm in algorithms,
        f"{name} is set, and the algorithm {learner.algorithm!r} does not use it, as {' and '.join(algorithms)} would: "
        "leave it at its default, or choose another algorithm.",
      )

  @property
  def max_history(self) -> int:
    """The longest tau that a table asks for, in steps; 1 where none does."""
    return max((event.history for event in self.events if event.table is not None), default=1)

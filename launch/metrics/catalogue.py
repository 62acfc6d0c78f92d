"""Every metric that a role exports; docs/metrics.md has the same table.

Names and units are those of Prometheus's conventions: base units, `_total` for counters, and the UNIX time at which something
happened in place of its age. A counter counts since the process began, because what a run restores from a snapshot may be less
than what it had, which Prometheus would take for a new count from 0. Restarts and refused messages are kept by the run and only
rise. What belongs to the run as a whole is a gauge.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal, NamedTuple

SERVER, LEARNER, ACTOR, EVALUATOR = "server", "learner", "actor", "evaluator"
ROLES = (SERVER, LEARNER, ACTOR, EVALUATOR)
_CLIENTS = (LEARNER, ACTOR, EVALUATOR)


class Sample(NamedTuple):
  """One value of a metric.

  Attributes:
    name: of the metric.
    value: of now.
    labels: the values of its labels, in the catalogue's order.
  """

  name: str
  value: float
  labels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Metric:
  """One metric.

  Attributes:
    name: as Prometheus stores it.
    kind: counter or gauge.
    unit: of its values; empty for a truth value (0 or 1).
    meaning: one sentence.
    roles: that export it.
    labels: names of its labels.
  """

  name: str
  kind: Literal["counter", "gauge"]
  unit: str
  meaning: str
  roles: tuple[str, ...]
  labels: tuple[str, ...] = ()


def _counter(name: str, unit: str, meaning: str, roles: tuple[str, ...], *labels: str) -> Metric:
  return Metric(f"slipstream_{name}_total", "counter", unit, meaning, roles, labels)


def _gauge(name: str, unit: str, meaning: str, roles: tuple[str, ...], *labels: str) -> Metric:
  return Metric(f"slipstream_{name}", "gauge", unit, meaning, roles, labels)


_ALL = (
  # Of every role.
  _gauge(
    "role_info", "", "1; the labels say which process this is.", ROLES, "role", "name", "run", "run_id", "version"
  ),
  _gauge("role_healthy", "", "Whether /healthz says that the loop moves.", ROLES, "role"),
  _gauge("role_ready", "", "Whether /readyz says that the process does its work.", ROLES, "role"),
  _gauge("role_loop_age_seconds", "seconds", "Time since the loop last went round.", ROLES, "role"),
  _gauge(
    "role_wait_seconds", "seconds", "How long the present wait has lasted; 0 without one.", _CLIENTS, "role", "on"
  ),
  _gauge("role_server_silence_seconds", "seconds", "Time since the replay server last answered.", _CLIENTS, "role"),
  _gauge("policy_version", "versions", "The policy last sent, acted by or evaluated.", _CLIENTS, "role"),
  _gauge(
    "policy_timestamp_seconds", "UNIX time", "When a policy last arrived, was taken or evaluated.", _CLIENTS, "role"
  ),
  # The run, as the server knows it.
  _gauge("run_environment_steps", "steps", "Transitions since the run began.", (SERVER,)),
  _gauge("run_budget_steps", "steps", "Transitions at which the run ends.", (SERVER,)),
  _gauge("run_gradient_steps", "steps", "Gradient steps since the run began.", (SERVER,)),
  _gauge("run_episodes", "episodes", "Training episodes since the run began.", (SERVER,)),
  _gauge("run_dropped_episodes", "episodes", "Training episodes that were lost before their end.", (SERVER,)),
  _gauge("run_duration_seconds", "seconds", "Time since the run began.", (SERVER,)),
  _gauge("run_phase", "", "1 for the present phase of the run, else 0.", (SERVER,), "phase"),
  _gauge("run_train_return", "reward", "Mean return of the last 100 training episodes.", (SERVER,)),
  _gauge("run_train_length_steps", "steps", "Mean length of the last 100 training episodes.", (SERVER,)),
  _gauge(
    "run_train_measure",
    "any",
    "Mean of a measure over those of the last 100 training episodes that have it.",
    (SERVER,),
    "measure",
  ),
  _gauge("run_solved_streak", "evaluations", "Solved evaluations in a row.", (SERVER,)),
  _gauge("run_processes", "processes", "Processes of a role that are heard.", (SERVER,), "role"),
  _gauge("run_processes_lost", "processes", "Processes that fell silent in the last two minutes.", (SERVER,), "role"),
  _gauge("run_processes_waiting", "processes", "Processes of a role that wait on another.", (SERVER,), "role", "on"),
  _counter("run_restarts", "restarts", "Times that a process of a role was started again.", (SERVER,), "role"),
  _counter("refused_messages", "messages", "Messages that the server could not read.", (SERVER,)),
  # Its tables.
  _gauge("table_rows", "rows", "Rows that the table holds.", (SERVER,), "table"),
  _gauge("table_capacity_rows", "rows", "Rows that the table can hold.", (SERVER,), "table"),
  _counter("table_inserts", "items", "Items written to the table.", (SERVER,), "table"),
  _counter("table_samples", "items", "Items drawn from the table.", (SERVER,), "table"),
  _counter(
    "table_limiter_wait_seconds",
    "seconds",
    "Time that the limiter held writers or readers back.",
    (SERVER,),
    "table",
    "side",
  ),
  # Its snapshots.
  _counter("snapshots", "snapshots", "Snapshots written.", (SERVER,)),
  _counter("snapshot_failures", "snapshots", "Snapshots that could not be written.", (SERVER,)),
  _gauge("snapshot_timestamp_seconds", "UNIX time", "When the last snapshot was written.", (SERVER,)),
  _gauge("snapshot_duration_seconds", "seconds", "How long the last snapshot took.", (SERVER,)),
  _gauge("snapshot_period_seconds", "seconds", "Time between two snapshots, as the config asks for.", (SERVER,)),
  # The learner.
  _counter("learner_gradient_steps", "steps", "Gradient steps.", (LEARNER,)),
  _counter("learner_rows", "rows", "Rows learned from.", (LEARNER,)),
  _counter("learner_wait_seconds", "seconds", "Time in which the loop waited for rows.", (LEARNER,)),
  _counter("learner_policies", "policies", "Policies published.", (LEARNER,)),
  _counter("learner_refused_rows", "rows", "Rows drawn that could not be learned from.", (LEARNER,)),
  _counter("learner_refused_priorities", "rows", "TD errors that gave no valid priority.", (LEARNER,)),
  _gauge("learner_drawn_ahead_rows", "rows", "Most rows that may be drawn and not yet used.", (LEARNER,)),
  _gauge("learner_loss", "loss", "Mean loss of the last block.", (LEARNER,)),
  _gauge("learner_measure", "any", "Another mean of the last block, such as mean_q.", (LEARNER,), "measure"),
  _gauge("learner_lease_held", "", "Whether this process may learn.", (LEARNER,)),
  _gauge("learner_checkpoint_timestamp_seconds", "UNIX time", "When the last checkpoint was written.", (LEARNER,)),
  # Workers.
  _counter("actor_environment_steps", "steps", "Steps taken.", (ACTOR,)),
  _counter("actor_episodes", "episodes", "Episodes that ended.", (ACTOR,)),
  _counter(
    "actor_dropped_episodes", "episodes", "Open episodes given up, as the world or the server had lost them.", (ACTOR,)
  ),
  _gauge("actor_missed_ticks", "ticks", "In which the worlds of this session went on without an action.", (ACTOR,)),
  _counter("actor_wait_seconds", "seconds", "Time spent waiting for the server or the learner.", (ACTOR,), "on"),
  # The evaluator.
  _counter("evaluator_evaluations", "evaluations", "Evaluations.", (EVALUATOR,)),
  _counter(
    "evaluator_passed_over",
    "evaluations",
    "Multiples of evaluator.period_updates that got no evaluation, where evaluations go by updates.",
    (EVALUATOR,),
  ),
  _gauge("evaluator_return", "reward", "Mean return of the last evaluation.", (EVALUATOR,)),
  _gauge("evaluator_length_steps", "steps", "Mean episode length of the last evaluation.", (EVALUATOR,)),
  _gauge("evaluator_measure", "any", "Mean of a measure in the last evaluation.", (EVALUATOR,), "measure"),
  _gauge("evaluator_solved", "", "Whether the last evaluation met the goal.", (EVALUATOR,)),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}

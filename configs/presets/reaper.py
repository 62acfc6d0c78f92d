"""CartPole, Acrobot and LunarLander with ReaPER, with the parameters of its paper (Appendix E, Table 2)."""

import dataclasses
from collections.abc import Callable

from configs.algorithms import DdqnConfig
from configs.learning import LearnerConfig
from configs.run import (
  ActorConfig,
  EnvironmentConfig,
  EvaluatorConfig,
  NetworkConfig,
  PriorityConfig,
  ReplayConfig,
  RunConfig,
)
from configs.specs import TableSpec

# Of Stable-Baselines3, with which the authors ran their worlds: the table does not give them.
_HIDDEN_SIZES = (256, 256)
_EPSILON = 1e-6
_EVALUATIONS = 100


@dataclasses.dataclass(frozen=True)
class World:
  """A column of Table 2.

  Attributes:
    environment: its gymnasium id.
    learning_rate: of Adam.
    budget: in environment steps.
    capacity: of the buffer, in transitions.
    target_period: gradient steps between two copies of the online network. In the authors' library the table's intervals, 10, 250
      and 250, count environment steps. In CartPole all copies of a round of 256 steps come before its 128 updates, so they are
      one.
    batch_size: transitions per gradient step.
    round: environment steps that are taken at once.
    updates: gradient steps that follow them.
    exploration: part of the budget over which epsilon falls from 1.
    final_epsilon: to which it falls.
    threshold: mean return of an evaluation that solves the world.
  """

  environment: str
  learning_rate: float
  budget: int
  capacity: int
  target_period: int
  batch_size: int
  round: int
  updates: int
  exploration: float
  final_epsilon: float
  threshold: float


WORLDS = {
  "cartpole": World("CartPole-v1", 2.3e-3, 50_000, 100_000, 128, 64, 256, 128, 0.16, 0.04, 475.0),
  "acrobot": World("Acrobot-v1", 6.3e-4, 100_000, 50_000, 250, 128, 4, 4, 0.12, 0.1, -100.0),
  "lunar_lander": World("LunarLander-v3", 6.3e-4, 100_000, 50_000, 250, 128, 4, 4, 0.12, 0.1, 200.0),
}
# Steps before the first update; their actions are random.
_WARM_UP = 1_000


def get_config(name: str) -> RunConfig:
  """A world of `WORLDS` with ReaPER; `configs.methods` makes PER and uniform replay of it."""
  world = WORLDS[name]
  steps_per_update = world.round / world.updates
  updates = round((world.budget - _WARM_UP) / steps_per_update)
  explored = world.exploration * world.budget
  return RunConfig(
    name=f"reaper_{name}",
    environment_steps=world.budget,
    environment=EnvironmentConfig(world.environment),
    replay=ReplayConfig(
      capacity=world.capacity,
      default=TableSpec("default", probability=1.0, min_size=_WARM_UP, selector="prioritized"),
      priority=PriorityConfig(
        criterion="reaper",
        exponent=0.4,
        reliability_exponent=0.2,
        normalize="buffer",
        importance_updates=updates,
        epsilon=_EPSILON,
        new_items="largest",
      ),
      sampling="memory",
      environment_steps_per_update=steps_per_update,
      steps_per_round=world.round,
      insert_tolerance_steps=1_000,
    ),
    network=NetworkConfig(hidden_sizes=_HIDDEN_SIZES),
    actor=ActorConfig(workers=1, random_steps=_WARM_UP, policy_period_steps=world.round),
    learner=LearnerConfig(
      algorithm=DdqnConfig(
        td_loss="huber",
        # In the paper epsilon falls with environment steps, from the first one on. This is its value at the first update.
        epsilon=1 - (1 - world.final_epsilon) * _WARM_UP / explored,
        final_epsilon=world.final_epsilon,
        epsilon_decay_updates=round((explored - _WARM_UP) / steps_per_update),
      ),
      batch_size=world.batch_size,
      learning_rate=world.learning_rate,
      max_gradient_norm=10.0,
      target_update_rate=1.0,
      target_update_period=world.target_period,
      # Priorities are exact after every update.
      updates_per_block=1,
      prefetch=False,
      publish_period_updates=world.updates,
    ),
    evaluator=EvaluatorConfig(
      episodes=5,
      epsilon=0.001,
      period_updates=round(world.budget / steps_per_update / _EVALUATIONS),
      solved_return=world.threshold,
      solved_evaluations=1,
    ),
  )


def preset(name: str) -> Callable[[], RunConfig]:
  """The function that returns a world's config, with a docstring about that world."""

  def get_world_config() -> RunConfig:
    return get_config(name)

  get_world_config.__doc__ = f"{WORLDS[name].environment} with double DQN and ReaPER, as in its paper's Table 2."
  return get_world_config

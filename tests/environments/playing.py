"""Scripted play, for the tests of the grid worlds."""

import copy

from minigrid.core.mission import MissionSpace
from minigrid.minigrid_env import MiniGridEnv

from environments import EventStep, shortest_plan
from environments.grid_world import VIEW_SIZE


def play(env, actions):
  """The steps of a started episode, as a condition sees them; it must not end before the last action."""
  steps = []
  for action in actions:
    observation, reward, terminated, truncated, info = env.step(action)
    steps.append(EventStep(None, action, reward, observation, info, terminated, truncated))
  return steps


def solve(env):
  """The actions that solve the rest of the episode."""
  plan = shortest_plan(env)
  assert plan is not None
  return plan


def picture_of(env):
  """What the world renders."""
  picture = env.render()
  assert picture is not None
  return picture


def things(env, kind=None):
  """(x, y) -> object inside the outer wall; only those of type `kind`, if given."""
  cells = ((x, y) for x in range(1, env.width - 1) for y in range(1, env.height - 1))
  found = {cell: env.grid.get(*cell) for cell in cells}
  return {cell: thing for cell, thing in found.items() if thing is not None and kind in (None, thing.type)}


def happened(step):
  """The names of what happened in a step."""
  return [name for name, value in step.info.items() if value is True and name != "moved"]


class Reference(MiniGridEnv):
  """minigrid's own environment on a copy of a world's grid; its actions have the same numbers as ours."""

  def __init__(self, world):
    self._grid, self._start = copy.deepcopy(world.grid), world.position
    super().__init__(
      MissionSpace(lambda: "reach the goal"),
      width=world.width,
      height=world.height,
      max_steps=1_000_000,
      see_through_walls=True,
      agent_view_size=VIEW_SIZE,
    )
    self.reset()

  def _gen_grid(self, width, height):
    self.grid, self.agent_pos, self.agent_dir = self._grid, self._start, 0

"""Breadth-first search, to solve the grid worlds."""

import collections
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


def fewest_actions(
  start: State, is_goal: Callable[[State], bool], successors: Callable[[State], Iterable[tuple[int, State]]]
) -> tuple[int, ...] | None:
  """A shortest sequence of actions from a state to a goal, or None if no goal can be reached.

  Args:
    start: the state.
    is_goal: whether a state is a goal.
    successors: the actions that can be taken in a state, each with the state that it leads to.
  """
  arrivals: dict[State, tuple[State, int] | None] = {start: None}  # state -> (state before, action).
  queue = collections.deque([start])
  while queue:
    state = queue.popleft()
    if is_goal(state):
      return _trace(arrivals, state)
    for action, successor in successors(state):
      if successor not in arrivals:
        arrivals[successor] = (state, action)
        queue.append(successor)
  return None


def _trace(arrivals: dict[State, tuple[State, int] | None], state: State) -> tuple[int, ...]:
  actions: list[int] = []
  arrival = arrivals[state]
  while arrival is not None:
    before, action = arrival
    actions.append(action)
    arrival = arrivals[before]
  return tuple(reversed(actions))

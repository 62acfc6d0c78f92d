"""Breadth-first search, for worlds that show that they can be solved."""

import collections
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


def fewest_actions(
  start: State, is_goal: Callable[[State], bool], successors: Callable[[State], Iterable[tuple[int, State]]]
) -> tuple[int, ...] | None:
  """The fewest actions from a state to a goal, or None where none can be reached.

  Args:
    start: the state.
    is_goal: whether a state is one.
    successors: (action, the state that it leads to) of every action that can be taken in a state.
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

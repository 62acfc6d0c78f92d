"""A planner for the grid worlds that sees the whole world: it shows that an episode can be solved, and how."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from environments.grid_world import DROP, FORWARD, HEADINGS, PICKUP, TOGGLE, TURN_LEFT, TURN_RIGHT, GridWorld, Position
from environments.search import fewest_actions


class _State(NamedTuple):
  position: Position
  heading: int
  carrying: int  # The index of the key in hand, or -1.
  keys: tuple[Position | None, ...]  # Where each key lies; None for the key in hand.
  opened: frozenset[Position]  # Doors that the plan has opened.
  drops: int


def shortest_plan(world: GridWorld) -> tuple[int, ...] | None:
  """A shortest sequence of actions from the world's current state to its goal, or None if there is none.

  It walks neither on lava nor on spikes. It drops a key only if there is no other way (one key behind the other), and as rarely
  as possible. The world is not changed.
  """
  searcher = _Searcher(world)
  for drops in range(len(searcher.colours) + 1):
    plan = searcher.search(drops)
    if plan is not None:
      return plan
  return None


class _Searcher:
  """Breadth-first search over everything that can change: the agent, the keys and the doors."""

  def __init__(self, world: GridWorld):
    cells = [(x, y) for y in range(world.height) for x in range(world.width)]
    things = {cell: thing for cell in cells if (thing := world.grid.get(*cell)) is not None}
    keys = [(cell, thing) for cell, thing in things.items() if thing.type == "key"]
    in_hand = [] if world.carrying is None else [(None, world.carrying)]
    self.goal = world.goal
    self.colours: Sequence[str] = [key.color for _, key in [*in_hand, *keys]]
    self.start = _State(
      world.position,
      world.heading,
      carrying=0 if in_hand else -1,
      keys=tuple(cell for cell, _ in [*in_hand, *keys]),
      opened=frozenset(),
      drops=0,
    )
    self.doors = {cell: thing for cell, thing in things.items() if thing.type == "door" and not thing.is_open}
    free = {cell for cell in cells if cell not in things or things[cell].type in ("key", "goal")}
    self.free = free | {cell for cell, thing in things.items() if thing.type == "door" and thing.is_open}
    self.droppable = {cell for cell in cells if cell not in things or things[cell].type == "key"}

  def search(self, drops: int) -> tuple[int, ...] | None:
    """A shortest sequence of actions with at most `drops` drops."""

    def successors(state: _State) -> Iterator[tuple[int, _State]]:
      return (step for step in self._successors(state) if step[1].drops <= drops)

    return fewest_actions(self.start, lambda state: state.position == self.goal, successors)

  def _successors(self, state: _State) -> Iterator[tuple[int, _State]]:
    """The actions that change something, with the states that they lead to."""
    yield TURN_LEFT, state._replace(heading=(state.heading - 1) % len(HEADINGS))
    yield TURN_RIGHT, state._replace(heading=(state.heading + 1) % len(HEADINGS))
    (x, y), (dx, dy) = state.position, HEADINGS[state.heading]
    ahead = (x + dx, y + dy)
    if ahead in state.keys:
      if state.carrying < 0:
        key = state.keys.index(ahead)
        yield PICKUP, state._replace(carrying=key, keys=_replace(state.keys, key, None))
      return
    if ahead in self.free or ahead in state.opened:
      yield FORWARD, state._replace(position=ahead)
    elif ahead in self.doors:
      door = self.doors[ahead]
      if not door.is_locked or (state.carrying >= 0 and self.colours[state.carrying] == door.color):
        yield TOGGLE, state._replace(opened=state.opened | {ahead})
    if state.carrying >= 0 and ahead in self.droppable:
      keys = _replace(state.keys, state.carrying, ahead)
      yield DROP, state._replace(carrying=-1, keys=keys, drops=state.drops + 1)


def _replace(keys: tuple[Position | None, ...], index: int, cell: Position | None) -> tuple[Position | None, ...]:
  return (*keys[:index], cell, *keys[index + 1 :])

"""Random plans of memories and random streams of rows."""

import dataclasses
import random

from hypothesis import strategies as st

from configs import TableSpec
from configs.specs import Selector
from replay_memory.plan import Plan
from tests.replay_memory.making import plan_of
from tests.replay_memory.oracle import Oracle, Row
from tests.serving import config_of

# numba's variable, with which kernels are plain Python.
PLAIN = "NUMBA_DISABLE_JIT"


@st.composite
def plans(draw: st.DrawFn) -> Plan:
  """One to three event tables, prioritised or not, and events of which several may share a table."""
  names = ["left", "middle", "right"][: draw(st.integers(1, 3))]
  capacities = {name: draw(st.integers(1, 9)) for name in names}
  fed = [*names, *draw(st.lists(st.sampled_from(names), max_size=2))]
  events = [(name, draw(st.integers(1, capacities[name]))) for name in draw(st.permutations(fed))]
  selectors: st.SearchStrategy[Selector] = st.sampled_from(["uniform", "prioritized"])
  capacities = {"default": draw(st.integers(1, 12)), **capacities}
  tables = [TableSpec(name, 1 / len(capacities), size, selector=draw(selectors)) for name, size in capacities.items()]
  plan = plan_of(config_of(tables, events))
  # From slots that never suffice for more than one open episode to such that always do.
  spare = draw(st.sampled_from([1, plan.longest_history, 4 * plan.longest_history + 1]))
  return dataclasses.replace(plan, slots=sum(plan.capacities) + spare)


@st.composite
def whole_plans(draw: st.DrawFn) -> Plan:
  """Plans whose default table takes whole episodes, with room for a few of them."""
  plan = draw(plans())
  capacity = draw(st.integers(12, 40))
  capacities = (capacity, *plan.capacities[1:])
  return dataclasses.replace(
    plan,
    capacities=capacities,
    longest_history=max(plan.longest_history, capacity),
    slots=sum(capacities) + draw(st.sampled_from([capacity, 2 * capacity])),
    whole_episodes=True,
  )


_KINDS = ["next"] * 7 + ["skip", "late", "late", "repeat"]


@dataclasses.dataclass(frozen=True)
class Op:
  """A row to be added: `kind` says how its step follows from those of its episode, `pick` which of several it is."""

  episode: int
  kind: str
  pick: int
  events: int
  ended: str
  cut: bool  # Whether it is the last of the rows that are added at once.
  updates: int  # Of priorities, after it, if it is the last.


def random_ops(seed: int) -> list[Op]:
  """Lists that hypothesis draws are too short to fill tables."""
  rng = random.Random(seed)
  event_rate, end_rate, cut_rate = rng.choice([0.05, 0.3]), rng.choice([0.02, 0.1]), rng.choice([0.1, 0.9])
  return [
    Op(
      episode=rng.randrange(4),
      kind=rng.choice(_KINDS),
      pick=rng.randrange(8),
      events=rng.randrange(32) if rng.random() < event_rate else 0,
      ended=rng.choice(["terminated", "truncated"]) if rng.random() < end_rate else "",
      cut=rng.random() < cut_rate,
      updates=rng.randrange(3),
    )
    for _ in range(rng.randrange(20, 100))
  ]


def row_of(oracle: Oracle, pending: list[Row], op: Op, numbers: dict[int, int]) -> Row:
  """The row that an op stands for; an episode that has ended is followed by another of the same writer."""
  identity = (op.episode << 32) + numbers.get(op.episode, 0)
  received: set[int] = set()
  if identity in oracle.episodes:
    received |= oracle.episodes[identity].received
  for row in pending:
    if row.episode == identity:
      received.add(row.step)
  last = max(received, default=-1)
  skipped = sorted(set(range(last)) - received)
  step = last + 1
  if op.kind == "skip":
    step = last + 2 + op.pick
  elif op.kind == "late" and skipped:
    step = skipped[op.pick % len(skipped)]
  elif op.kind == "repeat" and received:
    step = sorted(received)[op.pick % len(received)]
  if op.ended:
    numbers[op.episode] = numbers.get(op.episode, 0) + (op.pick % 4 > 0)  # Or its rows go on after its end.
  return Row(identity, step, op.events, op.ended)

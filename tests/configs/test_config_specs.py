"""Specs of events and tables: defaults, and what is refused."""

import dataclasses

import pytest

from configs import EventSpec, TableSpec, UserError


def test_an_event_sends_its_history_to_a_table_of_its_own_name_by_default():
  assert EventSpec("goal", "worlds:goal", 5).table == "goal"
  assert EventSpec("goal", "worlds:goal", 5, table="events").table == "events"
  assert EventSpec("goal", "worlds:goal", 5, table=None).table is None


def test_a_condition_may_be_a_dotted_name():
  assert EventSpec("goal", "a.b_1:C.d", 1).condition == "a.b_1:C.d"


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (("", "a:b", 1), r"Event name '' is not valid: use letters, digits, '_', '-' and '\.'\."),
    (("a goal", "a:b", 1), r"Event name 'a goal' is not valid"),
    (("-goal", "a:b", 1), r"Event name '-goal' is not valid"),
    (("goal", "worlds.goal", 1), r"Event 'goal' has the condition 'worlds\.goal': write it as 'module:function', for"),
    (("goal", "worlds:", 1), r"has the condition 'worlds:'"),
    (("goal", "a:b:c", 1), r"has the condition 'a:b:c'"),
    (("goal", "a:b", 0), r"Event 'goal' has a history of 0 steps: it needs at least 1, the event's own\."),
  ],
)
def test_an_event_that_is_not_valid_is_refused(arguments, sentence):
  with pytest.raises(UserError, match=sentence):
    EventSpec(*arguments)


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ({"name": "a b", "probability": 0.5}, r"Table name 'a b' is not valid"),
    ({"name": "t", "probability": 0.0}, r"Table 't' has the probability 0\.0: it must lie in \(0, 1\]\."),
    ({"name": "t", "probability": 1.1}, r"Table 't' has the probability 1\.1"),
    ({"name": "t", "probability": float("nan")}, r"Table 't' has the probability nan"),
    (
      {"name": "t", "probability": 1, "capacity": 0},
      r"'t' has the capacity 0: it must hold at least 1 transition, and",
    ),
    (
      {"name": "t", "probability": 1, "capacity": 2**63},
      r"the capacity 9223372036854775808: it must .* at most 2\^63 - 1",
    ),
    (
      {"name": "t", "probability": 1, "min_size": 0},
      r"Table 't' has the min_size 0: it must be at least 1, and at most",
    ),
    ({"name": "t", "probability": 1, "min_size": 2**63}, r"the min_size 9223372036854775808: it must be"),
    (
      {"name": "t", "probability": 1, "capacity": 5, "min_size": 6},
      r"Table 't' waits for 6 transitions but holds at most 5: lower min_size or raise the capacity\.",
    ),
    (
      {"name": "t", "probability": 1, "selector": "random"},
      r"Table 't' has the selector 'random': use one of uniform, prioritized, ranked, fifo, lifo\b",
    ),
  ],
)
def test_a_table_that_is_not_valid_is_refused(arguments, sentence):
  with pytest.raises(UserError, match=sentence):
    TableSpec(**arguments)


def test_a_spec_cannot_be_changed():
  with pytest.raises(dataclasses.FrozenInstanceError):
    TableSpec("t", 1.0).probability = 0.5  # type: ignore[misc]  # The mistake.

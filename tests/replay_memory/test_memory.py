"""The memory by example; every expectation is worked out by hand."""

import numpy as np
import pytest

from configs import TableSpec, UserError
from replay_memory import kernels
from replay_memory.memory import ReplayMemory
from tests.replay_memory.making import contents, episode_rows, keys_in, memory_of, packed, plan_of, steps
from tests.replay_memory.oracle import Row
from tests.serving import CODEC, config_of, make_config


def test_an_event_sends_its_history_by_hand() -> None:
  memory = memory_of({"goal": 10}, [("goal", 3)])
  memory.add(packed(episode_rows(7, events={4: 1, 5: 1})))
  assert steps(memory) == {"default": list(range(7)), "goal": [2, 3, 4, 5]}


def test_events_on_one_table_keep_their_own_history_and_fill_each_others_gaps_by_hand() -> None:
  memory = memory_of({"shared": 100, "other": 100}, [("shared", 2), ("shared", 5), ("other", 3)])
  memory.add(packed(episode_rows(12, events={3: 0b001, 6: 0b001, 7: 0b110})))
  # A history of 2 at steps 3 and 6, then one of 5 at step 7, of which only 4 and 7 are missing.
  assert steps(memory) == {"default": list(range(12)), "shared": [2, 3, 5, 6, 4, 7], "other": [5, 6, 7]}


def test_an_event_table_keeps_rows_that_the_default_table_let_go_by_hand() -> None:
  memory = memory_of({"goal": 10}, [("goal", 2)], capacity=3)
  memory.add(packed(episode_rows(8, events={2: 1})))
  assert steps(memory) == {"default": [5, 6, 7], "goal": [1, 2]}
  assert memory.events_in_default == 0


def test_a_history_reaches_rows_that_the_default_table_let_go_by_hand() -> None:
  memory = memory_of({"goal": 10}, [("goal", 6)], capacity=2)
  memory.add(packed(episode_rows(8, events={7: 1})))
  assert steps(memory) == {"default": [6, 7], "goal": [2, 3, 4, 5, 6, 7]}


def test_a_step_that_a_table_was_sent_is_not_sent_again_after_its_eviction_by_hand() -> None:
  memory = memory_of({"goal": 3}, [("goal", 3)])
  memory.add(packed(episode_rows(3, 0, {2: 1})))
  memory.add(packed(episode_rows(2, 1, {1: 1})))  # Evicts steps 0 and 1 of episode 0.
  memory.add(packed([Row(0, 3, events=1)]))
  assert contents(memory)["goal"] == [(1, 0), (1, 1), (0, 3)]


def test_a_repeated_row_is_dropped_a_late_one_is_put_into_its_place_and_a_gap_is_noted_by_hand() -> None:
  memory = memory_of({"goal": 10}, [("goal", 4)])
  added = memory.add(packed([Row(5, 0), Row(5, 1), Row(5, 1), Row(5, 5, events=1)]))
  assert (added.new, added.repeated, added.late, added.gaps) == (3, 1, 0, 1)
  assert added.slots.tolist() == [0, 1, -1, 2]
  assert memory.counts.missing == 3
  added = memory.add(packed([Row(5, 3), Row(5, 3), Row(5, 0)]))
  assert (added.new, added.repeated, added.late, added.gaps) == (0, 2, 1, 0)
  assert memory.counts.missing == 2
  assert keys_in(memory, memory.episode_of(0)) == [(5, 0), (5, 1), (5, 3), (5, 5)]
  # Step 3 is within the history of the event on step 5, steps 0 and 1 are not.
  assert steps(memory) == {"default": [0, 1, 5, 3], "goal": [5, 3]}


def test_a_step_that_was_evicted_is_known_by_hand() -> None:
  memory = memory_of(capacity=2)
  memory.add(packed([*episode_rows(2, ended="terminated"), *episode_rows(2, 1, ended="terminated")]))
  assert memory.add(packed(episode_rows(2))).repeated == 2
  assert contents(memory)["default"] == [(1, 0), (1, 1)]


def test_the_episodes_that_lost_their_rows_first_are_forgotten_first_by_hand() -> None:
  memory = memory_of(capacity=1, spare_records=2)
  for episode in range(5):
    memory.add(packed(episode_rows(1, episode, ended="terminated")))
  # Episode 4 has a row, and the two latest without one are remembered.
  assert memory.add(packed([Row(episode, 0) for episode in (4, 3, 2)])).repeated == 3
  assert memory.add(packed([Row(0, 0)])).new == 1


def test_the_latest_gaps_are_remembered_by_hand() -> None:
  memory = memory_of(most_gaps=2)
  memory.add(packed([Row(0, 1), Row(0, 3), Row(0, 5)]))
  added = memory.add(packed([Row(0, 0), Row(0, 2), Row(0, 4)]))
  assert (added.repeated, added.late) == (1, 2)


def test_only_the_row_of_one_step_ends_an_episode_by_hand() -> None:
  memory = memory_of({"goal": 10}, [("goal", 4)], capacity=1)
  rows = packed([Row(0, 0, ended="terminated"), Row(0, 1, ended="terminated")])
  steps_field = next(field for field in CODEC.fields if field.name == "steps")
  rows[0, steps_field.offset] = np.array(2, np.int32).view(np.float32)
  memory.add(rows[:1])
  memory.add(packed([Row(1, 0)]))
  assert keys_in(memory, memory.slots) == [(0, 0), (1, 0)]
  memory.add(rows[1:])
  # Step 0, which no table holds, is no longer kept for events to come.
  assert keys_in(memory, memory.slots) == [(1, 0), (0, 1)]


def test_for_want_of_slots_the_episode_without_a_row_for_longest_lapses_by_hand() -> None:
  memory = memory_of({"goal": 4}, [("goal", 4)], capacity=1, slots=5 + 4)
  memory.add(packed([*episode_rows(4, 0), *episode_rows(4, 1), Row(0, 4)]))
  assert memory.stored == 8
  assert memory.counts.lapses == 0
  memory.add(packed([*episode_rows(4, 2)]))
  assert memory.counts.lapses == 1
  memory.add(packed([Row(0, 5, events=1), Row(1, 4, events=1)]))
  # The first event had its whole history, the second only the row that came after its episode had lapsed.
  assert memory.inserts.tolist() == [15, 5]
  assert contents(memory)["goal"] == [(0, 3), (0, 4), (0, 5), (1, 4)]
  assert memory.counts.lapses == 1


def test_a_memory_counts_what_both_the_default_and_an_event_table_hold_by_hand() -> None:
  memory = memory_of({"goal": 3, "other": 3}, [("goal", 2), ("other", 1)], capacity=4)
  memory.add(packed(episode_rows(3, events={1: 0b11})))
  assert memory.events_in_default == 2
  memory.add(packed([Row(0, 3), Row(0, 4)]))
  assert memory.events_in_default == 1
  assert memory.sizes.tolist() == [4, 2, 1]
  assert memory.inserts.tolist() == [5, 2, 1]


def test_rows_come_back_bit_by_bit() -> None:
  memory = memory_of()
  rows = np.random.default_rng(0).integers(0, 2**31, (1, CODEC.width), np.int32)
  fields = {field.name: field.offset for field in CODEC.fields}
  rows[0, fields["step"]] = 0
  added = memory.add(rows.view(np.float32))
  assert memory.take(added.slots).view(np.int32).tolist() == rows.tolist()


def test_a_kernel_gets_arrays_that_can_be_written_to_whatever_the_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
  given: list[np.ndarray] = []
  add_rows = kernels.add_rows

  def note(arrays: kernels.Memory, incoming: kernels.Incoming) -> None:
    given.extend(incoming)
    add_rows(arrays, incoming)

  monkeypatch.setattr(kernels, "add_rows", note)
  memory = memory_of()
  rows = np.zeros((1, CODEC.width), np.float32)
  rows.flags.writeable = False
  added = memory.add(rows)
  assert memory.take(added.slots).tolist() == rows.tolist()
  assert all(array.flags.writeable for array in given)


def test_a_handle_never_names_another_row() -> None:
  memory = ReplayMemory(plan_of(config_of([TableSpec("default", 0.5, 2), TableSpec("goal", 0.5, 2)])), CODEC)
  memory.add(packed(episode_rows(2, 0, {0: 1}, ended="terminated")))
  quotas = np.array([[8, 2]])
  drawn = memory.draw(quotas, np.random.default_rng(0))
  assert memory.slots_of(drawn.handles).tolist() == drawn.slots.tolist()
  held = memory.holds(drawn.handles)
  assert held.shape == (1, 10, 2)
  assert held[0, 8].tolist() == [True, True]
  memory.add(packed(episode_rows(3, 1, ended="terminated")))
  keys = keys_in(memory, drawn.slots[0])
  assert any(key[0] == 1 for key in keys)  # A slot was used again.
  assert [slot >= 0 for slot in memory.slots_of(drawn.handles)[0]] == [key == (0, 0) for key in keys]
  assert memory.holds(drawn.handles)[0, 8].tolist() == [False, True]


def test_columns_belong_to_rows_and_to_the_state() -> None:
  memory = memory_of(capacity=2)
  ratio = memory.add_column("ratio", np.float32, 1.0)
  added = memory.add(packed(episode_rows(2)))
  ratio[added.slots] = [5, 6]
  added = memory.add(packed([Row(0, 2)]))
  assert ratio[memory.slots].tolist() == [6, 1]
  state = memory.state()
  fresh = memory_of(capacity=2)
  restored = fresh.add_column("ratio", np.float32, 1.0)
  fresh.add_column("later", np.int64, 7)
  rows = memory.take(memory.slots)
  assert fresh.restore(state, rows, np.ones(len(rows), bool)) == 2
  assert restored[fresh.slots].tolist() == [6, 1]


def test_rows_that_are_lost_are_left_out_of_everything() -> None:
  memory = memory_of({"goal": 5}, [("goal", 3)], capacity=4)
  memory.add(packed(episode_rows(6, events={3: 1})))
  rows = memory.take(memory.slots)
  fresh = memory_of({"goal": 5}, [("goal", 3)], capacity=4)
  found = np.array([step not in (2, 5) for _, step in keys_in(memory, memory.slots)])
  fresh.restore(memory.state(), rows, found)
  assert steps(fresh) == {"default": [3, 4], "goal": [1, 3]}
  # The episode goes on, with what is left of its history.
  fresh.add(packed([Row(0, 6, events=1)]))
  assert steps(fresh) == {"default": [3, 4, 6], "goal": [1, 3, 4, 6]}


def test_a_table_of_less_capacity_keeps_its_newest_rows() -> None:
  memory = memory_of(capacity=5)
  memory.add(packed(episode_rows(7, ended="terminated")))
  rows = memory.take(memory.slots)
  smaller = memory_of(capacity=2)
  assert smaller.restore(memory.state(), rows, np.ones(5, bool)) == 2
  assert steps(smaller) == {"default": [5, 6]}
  assert smaller.received == 7


def test_a_state_of_other_tables_is_refused_with_a_sentence() -> None:
  state = memory_of({"goal": 5}, [("goal", 3)]).state()
  with pytest.raises(UserError, match="is of 2 tables, and the config has 1: resume"):
    memory_of().restore(state, packed([]), np.ones(0, bool))


def test_mistakes_of_the_caller_are_refused() -> None:
  memory = memory_of({"goal": 5}, [("goal", 3)])
  with pytest.raises(ValueError, match="'default', which is empty"):
    memory.draw(np.array([[1, 0]]), np.random.default_rng(0))
  with pytest.raises(ValueError, match=r"float32 \[n, 17\]"):
    memory.add(np.zeros((2, 3), np.float32))
  memory.add(packed(episode_rows(2)))
  with pytest.raises(ValueError, match="was received before"):
    memory.add(packed(episode_rows(2)), first=1)
  with pytest.raises(ValueError, match="one size"):
    memory.draw(np.array([[1, 0], [2, 0]]), np.random.default_rng(0))
  with pytest.raises(ValueError, match="from 0 to 1e"):
    memory.add(packed(episode_rows(2)), [np.nan, 1])


def test_the_estimate_is_what_the_arrays_take() -> None:
  plan = plan_of(make_config({"goal": 70}, [("goal", 3)], capacity=500))
  memory = ReplayMemory(plan, CODEC)
  assert memory.bytes == sum(array.nbytes for array in memory.arrays)
  memory.add_column("ratio", np.float32, 0)
  assert memory.bytes == plan.bytes + 4 * plan.slots
  assert plan.slots == 570 + 2 * 2 * 3

"""Calls on a server that answers, on an address without one, and on a server that was killed."""

import pathlib
import threading
import time

import numpy as np
import portpicker
import pytest

from actors.row_writer import RowWriter
from configs import ServerLost, Stopped, UserError
from replay_server.contract import layout
from replay_server.contract.connection import Connection, ItemWriter, OtherRun
from replay_server.contract.messages import decode_text, encode_text
from tests.serving import CODEC, free_port, inserted_into, make_config, server_process, serving, size_of, wait_for


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", ":80", "host:port", "host:0", "host:65536", "h:-1"])
def test_a_bad_address_is_one_sentence(address: str) -> None:
  with pytest.raises(UserError, match="write host:port"):
    Connection(address)


def test_waiting_for_a_server_that_does_not_exist_ends_in_time_with_a_sentence() -> None:
  connection = Connection(f"localhost:{portpicker.pick_unused_port()}")
  began = time.monotonic()
  with pytest.raises(UserError, match="No replay server answers"):
    connection.wait_until_up(0.1)
  assert time.monotonic() - began < 6
  stop = threading.Event()
  stop.set()
  with pytest.raises(Stopped):
    connection.wait_until_up(60, stop)


def test_waiting_for_an_answer_ends_in_time_and_when_it_is_told() -> None:
  connection, stop = Connection(f"localhost:{free_port()}"), threading.Event()
  with pytest.raises(ServerLost, match="does not answer"):
    connection.wait_for_answer(stop, timeout_seconds=0.5)
  stop.set()
  with pytest.raises(Stopped):
    connection.wait_for_answer(stop, timeout_seconds=60)


def test_the_latest_item_of_a_table_of_size_1_comes_back_as_it_was_written(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server:
    connection = Connection(server.address)
    connection.wait_until_up(5)
    writer = connection.writer()
    for text in ("one", "zwei äöü"):
      writer.write(layout.STATUS, [encode_text(text)])
    for _ in range(2):  # Reading does not remove it.
      columns = connection.read(layout.STATUS, "test")
      assert columns is not None
      assert decode_text(columns[0]) == "zwei äöü"
    connection.close()


def test_an_empty_table_reads_as_none_and_a_missing_table_is_one_sentence(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server:
    assert server.connection.read(layout.POLICY, "test") is None
    assert server.connection.read_many(layout.HEARTBEATS, 5, "test") == []
    with pytest.raises(UserError, match="has no table 'nobody'"):
      server.connection.read("nobody", "test")


def test_messages_are_read_once_in_their_order(tmp_path: pathlib.Path) -> None:
  with serving(make_config(), tmp_path, inline=True) as server:
    connection, writer = server.connection, server.connection.writer()
    for number in range(7):
      writer.write(layout.HEARTBEATS, [encode_text(str(number))])
    parts = [connection.read_many(layout.HEARTBEATS, 4, "test") for _ in range(3)]
    assert [[decode_text(columns[0]) for columns in part] for part in parts] == [list("0123"), list("456"), []]


def test_a_call_raises_its_functions_error_and_concurrent_calls_leave_no_threads_behind(
  tmp_path: pathlib.Path,
) -> None:
  connection = Connection("localhost:1")
  with pytest.raises(ZeroDivisionError):
    connection.call(lambda: 1 // 0, "dividing")
  before = threading.active_count()
  for _ in range(20):
    callers = [threading.Thread(target=connection.call, args=(lambda: time.sleep(0.002), "test")) for _ in range(3)]
    for caller in callers:
      caller.start()
    for caller in callers:
      caller.join()
  assert threading.active_count() - before <= 3


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Connection, ItemWriter]:
  """A connection and a writer, used before, to a server that was killed."""
  folder = tmp_path_factory.mktemp("killed")
  with server_process(folder) as (address, kill):
    connection = Connection(address)
    writer = connection.writer()
    writer.write(layout.STATUS, [encode_text("alive")])
    assert connection.info()[layout.STATUS].current_size == 1
    kill()
  return connection, writer


def test_the_info_of_a_killed_server_fails_fast(killed: tuple[Connection, ItemWriter]) -> None:
  began = time.monotonic()
  with pytest.raises(ServerLost, match="does not answer"):
    killed[0].info(timeout_seconds=1)
  assert time.monotonic() - began < 5


def test_a_call_that_hangs_on_a_killed_server_is_abandoned_and_does_not_delay_the_next(
  killed: tuple[Connection, ItemWriter],
) -> None:
  connection, _ = killed
  began = time.monotonic()
  with pytest.raises(ServerLost, match=r"within 0\.5 s \(looking\)"):
    connection.call(lambda: list(connection.client.sample(connection.wire_name(layout.STATUS))), "looking", 0.5)
  assert connection.call(lambda: 7, "computing", 5) == 7
  assert time.monotonic() - began < 5


def test_a_write_to_a_killed_server_is_abandoned(killed: tuple[Connection, ItemWriter]) -> None:
  began = time.monotonic()
  with pytest.raises(ServerLost, match="did not confirm an item for table 'status'"):
    killed[1].write(layout.STATUS, [encode_text("dead")], 0.5)
  assert time.monotonic() - began < 5


def test_no_stream_is_opened_while_nobody_answers(killed: tuple[Connection, ItemWriter]) -> None:
  # Reverb's writer releases memory that is not its own if its stream fails while it is being made.
  connection, writer = killed
  writer.close()
  began = time.monotonic()
  with pytest.raises(ServerLost, match="does not answer"):
    connection.open_writer(max_references=1, timeout_seconds=1)
  with pytest.raises(ServerLost, match="does not answer"):
    writer.write(layout.STATUS, [encode_text("dead")], 0.5)
  stop = threading.Event()
  stop.set()
  with pytest.raises(Stopped):
    connection.open_writer(max_references=1, stop=stop)
  assert time.monotonic() - began < 15


def test_another_run_at_the_address_refuses_everything_of_this_one(tmp_path: pathlib.Path) -> None:
  port = free_port()
  row, stop = np.zeros(CODEC.width, np.float32), threading.Event()
  with serving(make_config(), tmp_path / "first", run_id="first", port=port, inline=True) as first:
    connection = Connection(first.address)
    connection.info()
    writer = RowWriter(connection, 1, stop)
    writer.create_item("default", writer.append(row))
    writer.flush()
    messages = connection.writer()
    messages.write(layout.STATUS, [encode_text("{}")])
  with serving(make_config(), tmp_path / "second", run_id="second", port=port, inline=True) as second:
    wait_for(lambda: size_of(second.connection, layout.RUN) == 1)
    with pytest.raises(OtherRun, match="has run second, and not first"):
      connection.info()
    writer.create_item("default", writer.append(row))
    with pytest.raises(OtherRun, match="has another run, and not first"):
      writer.flush()
    with pytest.raises(OtherRun):
      messages.write(layout.STATUS, [encode_text("{}")])
    with pytest.raises(OtherRun):
      connection.update_priorities("default", {1: 5.0})
    with pytest.raises(OtherRun):
      connection.call(lambda: connection.open_sampler("default", samples=1, in_flight=1).next(), "drawing")
    inserted = {table: inserted_into(second.connection, table) for table in second.connection.info()}
    writer.close()
    connection.close()
  assert inserted == dict.fromkeys(inserted, 0) | {layout.RUN: 1}


def test_a_call_to_a_server_that_is_ending_is_a_lost_server() -> None:
  connection = Connection("localhost:1")
  error = connection.explained(NotImplementedError("Method not found!"))
  assert isinstance(error, ServerLost)
  assert str(error) == "The replay server at localhost:1 is ending: it takes no more calls."
  other = RuntimeError("of another kind")
  assert connection.explained(other) is other

"""Requests to a server that is away."""

import threading
import time

from launch.requests import send_request
from replay_server.contract.connection import PROBE_TIMEOUT_SECONDS, Connection
from replay_server.contract.messages import Request
from tests.serving import free_port, keeping, make_config, serving, wait_for


def test_a_request_waits_for_a_server_that_is_started_again(tmp_path):
  config, port = make_config({"goal": 20}, [("goal", 5)], capacity=30), free_port()
  connection = Connection(f"localhost:{port}")

  def send() -> None:
    connection.wait_for_answer(threading.Event(), 60.0)
    send_request(connection, Request("stop", "a user"))

  sending = threading.Thread(target=send)
  sending.start()
  time.sleep(PROBE_TIMEOUT_SECONDS + 4)  # The first questions have failed.
  with serving(config, tmp_path, port=port) as server, keeping(server, tmp_path) as keeper:
    sending.join(30)
    assert not sending.is_alive()
    wait_for(lambda: keeper.status is not None and keeper.status.phase == "stopping", 10)

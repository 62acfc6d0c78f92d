"""Requests to a server that is away."""

import threading
import time

from launch.requests import send_request
from replay_server.contract.connection import INFO_TIMEOUT_SECONDS, Connection
from replay_server.contract.messages import Request
from tests.serving import free_port, keeping, make_config, serving, wait_for

_STOP = Request("stop", "a user")


def test_a_request_waits_for_a_server_that_is_started_again(tmp_path):
  config, port = make_config({"goal": 20}, [("goal", 5)], capacity=30), free_port()
  sending = threading.Thread(target=send_request, args=(Connection(f"localhost:{port}"), _STOP, 60.0))
  sending.start()
  time.sleep(INFO_TIMEOUT_SECONDS + 1)  # The first question has failed.
  with serving(config, tmp_path, port=port) as server, keeping(server, tmp_path) as keeper:
    sending.join(30)
    assert not sending.is_alive()
    wait_for(lambda: keeper.status is not None and keeper.status.phase == "stopping", 10)

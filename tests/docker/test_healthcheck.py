"""The health check of the image, against real ports."""

import contextlib
import http.server
import socket
import subprocess
import sys
import threading

import pytest

from tests.docker.texts import DOCKER


@contextlib.contextmanager
def _answering(code, text):
  """A server whose every answer is this; yields its port and the paths it was asked for."""
  asked = []

  class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
      asked.append(self.path)
      self.send_response(code)
      self.end_headers()
      self.wfile.write(text.encode())

    def log_message(self, *arguments):
      pass

  with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
      yield server.server_port, asked
    finally:
      server.shutdown()
      thread.join()


def _check(*words):
  command = [sys.executable, "-IS", str(DOCKER / "healthcheck.py"), *map(str, words)]
  done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
  assert done.stderr == ""
  return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(("answer", "code"), [(200, 0), (204, 1), (404, 1), (503, 1)])
def test_exit_code_says_whether_the_role_is_well(answer, code):
  text = "" if answer == 204 else "No step since 70 s."
  with _answering(answer, text) as (port, asked):
    assert _check(port) == (code, text)
  assert asked == ["/healthz"]


@pytest.mark.parametrize("path", ["data/environment", "/data/environment"])
def test_another_path_may_be_asked_for(path):
  with _answering(200, "fine") as (port, asked):
    assert _check(port, path) == (0, "fine")
  assert asked == ["/data/environment"]


def test_a_role_that_nobody_can_ask_is_not_well():
  with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    code, text = _check(port)
  assert code == 1
  assert f"Nobody answers on port {port}" in text


def test_a_role_that_hangs_is_not_well():
  with socket.socket() as silent:
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    code, text = _check(silent.getsockname()[1])
  assert code == 1
  assert "timed out" in text


def test_something_else_on_the_port_is_not_a_role():
  with socket.socket() as other:
    other.bind(("127.0.0.1", 0))
    other.listen()

    def talk():
      connection, _ = other.accept()
      with connection:
        connection.recv(1_000)
        connection.sendall(b"220 mail\r\n")

    thread = threading.Thread(target=talk)
    thread.start()
    code, _ = _check(other.getsockname()[1])
    thread.join()
  assert code == 1

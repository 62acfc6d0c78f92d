"""Index and name of a worker in one of many containers that are alike but for their host names."""

import socket

import pytest

from slipstream.commands import COMMANDS
from slipstream.commands.act import identity


@pytest.fixture(name="worker")
def _worker(monkeypatch):
  """(index, name) of a worker with these flags on a host of this name."""

  def worker(host, *words):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    return identity(COMMANDS["act"].parse(["--host_index", *words]).flags)

  return worker


def test_hosts_have_workers_of_different_indices_and_names(worker):
  workers = [worker(f"{number:012x}") for number in range(50)]
  assert len({index for index, _ in workers}) == len({name for _, name in workers}) == 50


def test_a_container_that_is_started_again_has_the_same_worker(worker):
  assert worker("9f3c2a71b0de") == worker("9f3c2a71b0de")


def test_a_name_that_is_given_stays(worker):
  index, name = worker("9f3c2a71b0de")
  assert name == "actor_9f3c2a71b0de"
  assert worker("9f3c2a71b0de", "--name=mine") == (index, "mine")

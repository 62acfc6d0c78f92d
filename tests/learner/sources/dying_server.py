"""Samplers whose server is killed while they draw: prints how each ended. `test_sampler.py` runs it.

In a process of its own: a Reverb data set keeps its thread for good once its server is gone, and the thread would keep
pytest's process from ending.
"""

import dataclasses
import os
import pathlib
import sys
import threading
import time

from configs import LearnerConfig, Stopped
from learner.sources.server import make_server_source
from replay_server.contract.connection import Connection
from replay_server.contract.manifest import Manifest
from tests.serving import CODEC, SPEC, fill, make_config, server_process


def draw_and_be_stopped(folder: pathlib.Path) -> None:
  """Kills the server under a sampler of each kind, and then stops them."""
  with server_process(folder) as (address, kill):
    connection = Connection(address)
    fill(connection, CODEC, "default", [{}])
    stop = threading.Event()
    samplers = {
      name: make_server_source(
        connection, Manifest.of("run", dataclasses.replace(make_config(), learner=learner), SPEC), stop
      )
      for name, learner in (
        ("fresh", LearnerConfig(batch_size=4, updates_per_block=1, prefetch=False)),
        ("ahead", LearnerConfig(batch_size=4, updates_per_block=4, prefetch=True)),
      )
    }
    for sampler in samplers.values():
      sampler.next_block()
    kill()
  ended: dict[str, str] = {}

  def drain(name: str) -> None:
    try:
      while True:
        samplers[name].next_block()
    except Stopped:
      ended[name] = "Stopped"

  threads = {name: threading.Thread(target=drain, args=(name,), daemon=True) for name in samplers}
  for thread in threads.values():
    thread.start()
  time.sleep(1.5)  # Long enough for a sampler that gives up by itself to end.
  print("still waiting:", ", ".join(name for name in samplers if name not in ended))
  stop.set()
  for name, thread in threads.items():
    thread.join(5)
    print(f"{name}: {ended.get(name, 'hangs')}")
  samplers["fresh"].close()
  print("fresh sampler's threads:", sum(thread.name == "sampler" for thread in threading.enumerate()) - 1, flush=True)
  os._exit(0)


draw_and_be_stopped(pathlib.Path(sys.argv[1]))

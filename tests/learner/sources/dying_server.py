"""Samplers whose server is killed while they draw: prints how each ended. `test_sampler.py` runs it.

In a process of its own, because a Reverb data set keeps its thread for good once its server is gone, and with it a process
that ends in the ordinary way.
"""

import os
import pathlib
import subprocess
import sys
import threading
import time

FOLDER = pathlib.Path(sys.argv[1])
SERVES = sys.argv[2:] == ["serve"]
# Started before the imports: both processes then take as long as one.
SERVER = None if SERVES else subprocess.Popen([sys.executable, __file__, str(FOLDER), "serve"], stdout=subprocess.PIPE)
sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

import numpy as np  # noqa: E402
from acme import specs  # noqa: E402

from actors.row_writer import RowWriter  # noqa: E402
from configs import (  # noqa: E402
  LearnerConfig,
  ReplayConfig,
  RunConfig,
  Stopped,
  TableSpec,
)
from learner.sources.server import make_server_source  # noqa: E402
from replay_server.contract.connection import Connection  # noqa: E402
from replay_server.contract.layout import make_row_codec  # noqa: E402
from replay_server.contract.manifest import Manifest  # noqa: E402
from replay_server.process.server import ReplayServer  # noqa: E402

SCALAR = specs.Array((), np.float32)
SPEC = specs.EnvironmentSpec(SCALAR, specs.DiscreteArray(2, np.int32), SCALAR, SCALAR)
CODEC = make_row_codec(SPEC)
REPLAY = ReplayConfig(default=TableSpec("default", 1.0, min_size=1), environment_steps_per_update=None)


def serve() -> None:
  """Serves until it is killed."""
  server = ReplayServer(RunConfig(replay=REPLAY), SPEC, "run", FOLDER)
  print(server.address, flush=True)
  threading.Event().wait()


def draw_and_be_stopped() -> None:
  """Kills the server under a sampler of each kind, and then stops them."""
  assert SERVER is not None
  assert SERVER.stdout is not None
  connection = Connection(SERVER.stdout.readline().decode().strip())
  writer = RowWriter(connection, 1, threading.Event())
  writer.create_item("default", writer.append(np.zeros(CODEC.width, np.float32)))
  writer.flush()
  stop = threading.Event()
  samplers = {
    name: make_server_source(connection, Manifest.of("run", RunConfig(replay=REPLAY, learner=learner), SPEC), stop)
    for name, learner in (
      ("fresh", LearnerConfig(batch_size=4, updates_per_block=1, prefetch=False)),
      ("ahead", LearnerConfig(batch_size=4, updates_per_block=4, prefetch=True)),
    )
  }
  for sampler in samplers.values():
    sampler.next_block()
  SERVER.kill()
  SERVER.wait()
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
  time.sleep(1.5)
  print("still waiting:", ", ".join(name for name in samplers if name not in ended))
  stop.set()
  for name, thread in threads.items():
    thread.join(5)
    print(f"{name}: {ended.get(name, 'hangs')}")
  samplers["fresh"].close()
  print("fresh sampler's threads:", sum(thread.name == "sampler" for thread in threading.enumerate()) - 1, flush=True)
  os._exit(0)


if SERVES:
  serve()
else:
  draw_and_be_stopped()

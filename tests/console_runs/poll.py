"""`python -m tests.console_runs.poll SECONDS ADDRESS ...`: asks consoles how they are, and prints a line of JSON each time.

It is a process of its own, as consoles may be on other hosts. It ends with the one that started it.
"""

import json
import os
import sys
import time

from consoles.connection import Connection, Failed

_ANSWER_SECONDS = 2.0


def main(seconds: float, addresses: list[str]) -> None:
  """Polls every `seconds`."""
  parent = os.getppid()
  connections = {address: Connection(address, None) for address in addresses}
  while os.getppid() == parent:
    due = time.monotonic() + seconds
    readings = {}
    for address, connection in connections.items():
      try:
        health = connection.health(_ANSWER_SECONDS)
      except Failed:
        continue
      readings[address] = {
        "ready": health.ready,
        "holder": health.holder,
        "tick": health.tick,
        "missed": health.missed_ticks,
        "late": health.late_ticks,
        "leases": health.leases,
      }
    print(json.dumps({"time": time.time(), "consoles": readings}), flush=True)
    time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
  main(float(sys.argv[1]), sys.argv[2:])

"""`slipstream snapshot`: lets a running job write a snapshot now."""

import time

from absl import flags

from configs.exit_codes import ExitCode
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_server, given_endpoint
from slipstream.commands.status import first_status


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)


def _run(arguments: Arguments) -> int:
  from launch.endpoint import connected
  from launch.requests import take_snapshot

  with connected(given_endpoint(arguments.flags)) as connection:
    began, before = time.monotonic(), first_status(connection)
    status = take_snapshot(connection, before)
  print(
    f"Snapshot {status.snapshot} of run {status.run_id} was written after {time.monotonic() - began:.1f} s.", flush=True
  )
  return ExitCode.DONE


COMMAND = Command("snapshot", "lets a running job write a snapshot now", _define_flags, _run, parity=CLIENT)

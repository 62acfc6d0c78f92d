"""`make test-tls`: who may join a run over TLS, tried on hosts in network namespaces.

A server, a learner with an evaluator, and two workers run on three hosts; intruders come from a fourth. Needs root, Linux,
iproute2, stunnel4, openssl and iptables.
"""

import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import NoReturn

from tests.faults.fleet import CaseFailed
from tests.faults.lab import lab, why_impossible
from tests.tls.cases import CASES, Case
from tests.tls.run import TlsRun

_NEEDED = ("stunnel4", "openssl", "iptables", "unshare")


def main() -> int:
  """Tries all cases; returns 1 if one failed, and 2 where they cannot be tried."""
  signal.signal(signal.SIGTERM, _end)
  missing = [program for program in _NEEDED if shutil.which(program) is None]
  reason = f"There is no command {', '.join(missing)}: install the packages." if missing else why_impossible()
  if reason:
    print(reason)
    return 2
  folder = pathlib.Path(tempfile.mkdtemp(prefix="slipstream-tls-"))
  began, held = time.monotonic(), 0
  with lab(4) as made:
    run = TlsRun(folder, made.hosts)
    try:
      for case in CASES:
        held += _try(case, run)
    finally:
      run.kill()
  print(f"\n{held} of {len(CASES)} cases held, in {time.monotonic() - began:.0f} s.")
  if held < len(CASES):
    print(f"Logs: {folder}")
    return 1
  shutil.rmtree(folder, ignore_errors=True)
  return 0


def _try(case: Case, run: TlsRun) -> bool:
  """Tries a case; never raises but for an interruption."""
  print(f"[{time.strftime('%H:%M:%S')}] {case.done}", flush=True)
  try:
    seen = case.run(run)
  except CaseFailed as error:
    print(f"  FAILED: {error}", flush=True)
    return False
  except Exception as error:
    traceback.print_exc()
    print(f"  FAILED: {type(error).__name__}: {error}", flush=True)
    return False
  print(f"  held: {seen}", flush=True)
  return True


def _end(number: int, frame: object) -> NoReturn:
  """Lets every `finally` run."""
  del frame
  raise SystemExit(128 + number)


if __name__ == "__main__":
  sys.exit(main())

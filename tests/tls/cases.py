"""The cases of `make test-tls`, in their order: each goes on with the run that the one before has left."""

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator

from configs.exit_codes import ExitCode
from tests.faults.fleet import CaseFailed, wait_for
from tests.tls.run import TlsRun

_CUT_SECONDS = 20.0
# A role tries the server's other port every 30 s.
_PROBED_SECONDS = 150.0
# Of the server's host, which is not in its certificate.
_OTHER_ADDRESS = "10.77.0.101"


@dataclasses.dataclass(frozen=True)
class Case:
  """One thing that is tried.

  Attributes:
    done: in words.
    run: does it and returns what was seen, in words; raises CaseFailed if something does not hold.
  """

  done: str
  run: Callable[[TlsRun], str]


def _begin(run: TlsRun) -> str:
  for role in run.roles.values():
    role.start()
  return f"steps and gradient steps rise after {run.wait_for_progress():.0f} s"


def _expect(run: TlsRun, said: str, *words: str) -> str:
  began = time.monotonic()
  done = run.command(*words)
  if done.returncode != ExitCode.MISTAKE or said not in done.stdout:
    raise CaseFailed(f"exit code {done.returncode}, and not a sentence with {said!r}: {done.stdout[-400:]}")
  return f"exit code 2 after {time.monotonic() - began:.0f} s: {done.stdout.strip().splitlines()[-1]}"


def _without_certificate(run: TlsRun) -> str:
  return _expect(run, "is reached by TLS alone", "act", f"--server={run.address}")


def _of_another_ca(run: TlsRun) -> str:
  at = f"--server={run.address}"
  distrusts = _expect(run, "is not of the CA of --tls_ca", "act", at, *run.theirs.flags("mallory"))
  both = run.folder / "both.crt"
  both.write_bytes(run.ours.ca.read_bytes() + run.theirs.ca.read_bytes())
  flags = [*run.theirs.flags("mallory")[:2], f"--tls_ca={both}"]
  return f"{distrusts}; {_expect(run, 'it is not of the server', 'status', at, *flags)}"


def _expired(run: TlsRun) -> str:
  return _expect(run, "has expired", "status", f"--server={run.address}", *run.ours.flags("expired"))


def _wrong_name(run: TlsRun) -> str:
  run.on_server("ip", "addr", "add", f"{_OTHER_ADDRESS}/24", "dev", "eth0")
  at = f"--server={_OTHER_ADDRESS}:8000"
  return _expect(run, f"does not name {_OTHER_ADDRESS}", "status", at, *run.ours.flags("alice"))


def _revoked(run: TlsRun) -> str:
  return _expect(run, "it is revoked", "status", f"--server={run.address}", *run.ours.flags("former"))


def _unchecked(run: TlsRun) -> str:
  def pair(authority: str, name: str) -> str:
    folder = (run.ours if authority == "ours" else run.theirs).folder
    return run.knock(folder / f"{name}.crt", folder / f"{name}.key")

  answers = {
    "none": run.knock(),
    "other CA": pair("theirs", "mallory"),
    "expired": pair("ours", "expired"),
    "not valid yet": pair("ours", "early"),
    "revoked": pair("ours", "former"),
    "the server's own": pair("ours", "server"),
    "in order": pair("ours", "alice"),
  }
  wrong = [f"{name}: {answer}" for name, answer in answers.items() if ("let in" in answer) != (name == "in order")]
  if wrong:
    raise CaseFailed("; ".join(wrong))
  return ", ".join(f"{name}: {answer}" for name, answer in answers.items())


def _log_names_them(run: TlsRun) -> str:
  reasons = (
    "it does not speak TLS",
    "it has no certificate",
    "its certificate is of another CA",
    "its certificate has expired",
    "its certificate is not valid yet",
    "its certificate is revoked",
    "its certificate is a server's",
  )
  for reason in reasons:
    run.wait_for_word("server", f"Refused a connection from 10.77.0.4: {reason}.")
  return (
    f"the server's log names 10.77.0.4 with {len(reasons)} reasons; {run.wait_for_progress():.0f} s to the next steps"
  )


def _take_away(run: TlsRun) -> str:
  began = time.monotonic()
  run.ours.run("revoke", "actor-1")
  code = run.wait_for_end("actor-1")
  seconds = time.monotonic() - began
  run.wait_for_word("actor-1", "it is revoked")
  if code != ExitCode.SERVER_LOST:
    raise CaseFailed(f"its exit code is {code}")
  again = _expect(run, "it is revoked", "act", f"--server={run.address}", *run.ours.flags("actor-1"))
  others = [name for name, role in run.roles.items() if not role.is_running and name != "actor-1"]
  if others:
    raise CaseFailed(f"{', '.join(others)} ended as well")
  return f"exit code 4 after {seconds:.0f} s, and then {again}; the others: steps after {run.wait_for_progress():.0f} s"


def _kill_tunnel(run: TlsRun) -> str:
  run.stunnel_of("server").kill()
  run.wait_for_word("server", "was ended by signal 9, and is started again")
  seconds = run.wait_for_progress()
  ended = [name for name, role in run.roles.items() if not role.is_running and name != "actor-1"]
  if ended:
    raise CaseFailed(f"{', '.join(ended)} ended")
  return f"steps and gradient steps rise after {seconds:.0f} s, nothing else was started again"


def _cut(run: TlsRun) -> str:
  run.server_host.cut()
  time.sleep(_CUT_SECONDS)
  run.server_host.join()
  seconds = run.wait_for_progress()
  ended = [name for name, role in run.roles.items() if not role.is_running and name != "actor-1"]
  if ended:
    raise CaseFailed(f"{', '.join(ended)} ended")
  return f"steps and gradient steps rise after {seconds:.0f} s, nothing was started again"


def _kill_role(run: TlsRun) -> str:
  stunnel = run.stunnel_of("evaluator")
  run.roles["evaluator"].process.send_signal(signal.SIGKILL)  # type: ignore[union-attr]  # It runs.
  seconds = wait_for(lambda: not stunnel.is_running(), "the stunnel of a killed evaluator ends", 30)
  run.wait_for_end("evaluator")
  run.roles["evaluator"].start()
  return f"its stunnel was gone after {seconds:.1f} s"


@contextlib.contextmanager
def _translated(run: TlsRun) -> Iterator[None]:
  """Meanwhile whoever connects to the server's other port seems to come from that host itself, as by a proxy."""
  rule = ["INPUT", "-p", "tcp", "--dport", str(run.status()["plain_port"]), "-j", "SNAT"]
  rule += ["--to-source", run.server_host.address]
  run.on_server("iptables", "-t", "nat", "-A", *rule)
  try:
    yield
  finally:
    run.on_server("iptables", "-t", "nat", "-D", *rule)


def _other_port(run: TlsRun) -> str:
  place = f"{run.server_host.address}:{run.status()['plain_port']}"
  if (answer := run.try_without_tls(place)) != "False":
    raise CaseFailed(f"{place} can be reached without TLS: {answer}")
  with _translated(run):
    if (answer := run.try_without_tls(place)) != "True":
      raise CaseFailed(f"{place} cannot be reached although it is open: {answer}")
    opened = wait_for(lambda: _exposed_to(run) == {"host-2", "host-3"}, "the status names two hosts", _PROBED_SECONDS)
    shown = run.command("status", f"--server={run.address}", *run.ours.flags("alice")).stdout
    if "is not protected" not in shown:
      raise CaseFailed(f"the panel does not say it: {shown[-600:]}")
  closed = wait_for(lambda: not _exposed_to(run), "the status names no host any more", _PROBED_SECONDS)
  return f"it is closed; opened, both hosts are named after {opened:.0f} s; closed again, none after {closed:.0f} s"


def _exposed_to(run: TlsRun) -> set[str]:
  return {role["host"] for role in run.status().get("roles", ()) if role["alive"] and role["reached_plain_port"]}


def _tls_only(run: TlsRun) -> str:
  run.roles["server"].process.terminate()  # type: ignore[union-attr]  # It runs.
  if (code := run.wait_for_end("server")) != ExitCode.TERMINATED:
    raise CaseFailed(f"the server ended with {code} after SIGTERM")
  run.serve_again("--tls_only")
  closed = run.wait_for_progress()
  with _translated(run):
    began = time.monotonic()
    code = run.wait_for_end("server", _PROBED_SECONDS)
  if code != ExitCode.MISTAKE:
    raise CaseFailed(f"the server ended with {code}: {run.roles['server'].last_words()}")
  run.wait_for_word("server", "and --tls_only is set: close it")
  seconds = time.monotonic() - began
  return f"closed: steps after {closed:.0f} s; open: the server ended with 2 after {seconds:.0f} s"


def _stop(run: TlsRun) -> str:
  for name, role in run.roles.items():
    if not role.is_running and name != "actor-1":
      role.start()
  run.wait_for_progress()
  done = run.command("stop", f"--server={run.address}", "--yes", *run.ours.flags("alice"))
  codes = {name: run.wait_for_end(name) for name in run.roles if name != "actor-1"}
  if done.returncode or any(codes.values()):
    raise CaseFailed(f"stop ended with {done.returncode}, the roles with {codes}: {done.stdout[-400:]}")
  wait_for(lambda: not run.left(), f"nothing is left, but {run.left()}", 30)
  return "all roles ended with 0; no process and no socket is left"


CASES = [
  Case("a run on three hosts over TLS", _begin),
  Case("a worker without a certificate, which speaks plain gRPC", _without_certificate),
  Case("a worker with a certificate of another CA", _of_another_ca),
  Case("a certificate that has expired", _expired),
  Case("an address that the server's certificate does not name", _wrong_name),
  Case("a certificate that is revoked", _revoked),
  Case("clients that do not check themselves", _unchecked),
  Case("what the server says of them", _log_names_them),
  Case("a worker's right is taken away while it works", _take_away),
  Case("SIGKILL of the server's stunnel", _kill_tunnel),
  Case(f"cable of the server cut for {_CUT_SECONDS:g} s", _cut),
  Case("SIGKILL of a role", _kill_role),
  Case("the server's port without TLS, which is closed, and is then opened", _other_port),
  Case("serve --tls_only", _tls_only),
  Case("slipstream stop", _stop),
]

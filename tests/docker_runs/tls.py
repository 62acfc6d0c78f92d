"""The case of docker/compose.tls.yaml: a run over TLS, who joins it from another container, and who does not."""

import os
import pathlib
import shutil
import tempfile
import time

from configs.exit_codes import ExitCode
from tests.certificates import Authority, make_expired
from tests.docker_runs.engine import HARDENED, CaseFailed, docker, last_lines, logs, start, wait_ended
from tests.docker_runs.stack import ROLES, Stack

_USER = 1000
_COMMAND_SECONDS = 180.0
_RECOVERY_SECONDS = 300.0


def run_over_tls(project: str, image: str, serve_flags: str) -> str:
  """Brings the stack up, lets users join and intruders try; returns the figures.

  Raises:
    CaseFailed: the run does not learn, a user is refused, or an intruder is not.
  """
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    folder.chmod(0o755)
    ours, theirs = _make_certificates(folder)
    stack = Stack(
      project,
      image,
      ("compose.yaml", "compose.tls.yaml"),
      SLIPSTREAM_TLS=str(folder / "tls"),
      SLIPSTREAM_SERVE_FLAGS=serve_flags,
      SLIPSTREAM_PORT="0",
      SLIPSTREAM_ACTORS="1",
    )
    try:
      began = time.monotonic()
      stack.up()
      stack.wait_for_workers(1)
      stack.recovery(_RECOVERY_SECONDS)
      learning = time.monotonic() - began
      _check_published(stack)
      network = f"{project}_run"
      code, said = _ask(image, network, ours.folder, "alice")
      if code:
        raise CaseFailed(f"alice is refused with {code}: {said}")
      for what, place, certificate, words in (
        ("without a certificate", None, "", "reached by TLS alone"),
        ("with one of another CA", theirs.folder, "mallory", "is not of the CA of --tls_ca"),
        ("with one that has expired", ours.folder, "expired", "has expired"),
        ("with one that is revoked", ours.folder, "former", "it is revoked"),
      ):
        code, said = _ask(image, network, place, certificate)
        if code != ExitCode.MISTAKE or words not in said or "Traceback" in said:
          raise CaseFailed(f"{what}, status ended with {code}: {said}")
      stopped = _stop(stack, image, network, ours)
    except CaseFailed as error:
      raise CaseFailed(f"{error}\n{stack.last_words()}") from None
    finally:
      stack.down()
  return f"learning after {learning:.0f} s; one user is answered, 4 intruders are refused with 2; {stopped}"


def _make_certificates(folder: pathlib.Path) -> tuple[Authority, Authority]:
  """The run's and a stranger's, and the folder `tls` that the override file mounts (docs/deploy.md)."""
  ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
  ours.run("server", "server")
  ours.run("role", "learner", "evaluator", "actor", "alice", "former")
  theirs.run("role", "mallory")
  ours.run("revoke", "former")
  make_expired(ours)
  for role in ROLES:
    place = folder / "tls" / role
    place.mkdir(parents=True)
    shutil.copy(ours.ca, place / "ca.crt")
    shutil.copy(ours.folder / f"{role}.crt", place / "tls.crt")
    shutil.copy(ours.folder / f"{role}.key", place / "tls.key")
  shutil.copy(ours.crl, folder / "tls" / "server" / "crl.pem")
  for path in folder.rglob("*"):
    os.chown(path, _USER, _USER)
  return ours, theirs


def _check_published(stack: Stack) -> None:
  ports = docker("port", stack.container("server")).splitlines()
  if [port.split()[0] for port in ports] != ["8000/tcp"] * len(ports) or not ports:
    raise CaseFailed(f"the server's published ports: {ports}")


def _ask(
  image: str, network: str, folder: pathlib.Path | None, certificate: str, command: str = "status"
) -> tuple[int, str]:
  """The exit code of a `slipstream` command in a container of its own on the run's network, and the end of what it printed."""
  flags = [f"--tls_cert=/tls/{certificate}.crt", f"--tls_key=/tls/{certificate}.key", "--tls_ca=/tls/ca.crt"]
  mount = [f"--volume={folder}:/tls:ro"] if folder is not None else []
  words = [command, "--server=server:8000", *(flags if folder is not None else [])]
  words += ["--yes"] if command == "stop" else []
  one = start(*HARDENED, *mount, "--no-healthcheck", f"--network={network}", image, *words)
  code = wait_ended(one, _COMMAND_SECONDS)
  said = last_lines(logs(one), 4)
  docker("rm", "--force", one)
  return code, said


def _stop(stack: Stack, image: str, network: str, ours: Authority) -> str:
  code, said = _ask(image, network, ours.folder, "alice", "stop")
  seconds = stack.wait_ended(_COMMAND_SECONDS)
  codes = stack.exit_codes()
  if code or set(codes.values()) != {0}:
    raise CaseFailed(f"stop ended with {code}, the roles with {codes}: {said}")
  return f"after 'slipstream stop' {len(codes)} containers ended with 0 in {seconds:.0f} s"

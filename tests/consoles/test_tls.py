"""Consoles over TLS: who has no certificate of the CA gets no answer."""

import pathlib

import pytest

from configs import UserError
from consoles.client import Console
from tests.certificates import Authority, needs_openssl
from tests.consoles.serving import served


def _files(folder: pathlib.Path, name: str, authority: str = "ca") -> dict[str, str]:
  return {
    "tls_cert": str(folder / f"{name}.crt"),
    "tls_key": str(folder / f"{name}.key"),
    "tls_ca": str(folder / f"{authority}.crt"),
  }


@needs_openssl
def test_only_a_certificate_of_the_ca_opens_a_console(tmp_path: pathlib.Path) -> None:
  ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
  ours.run("server", "localhost")
  ours.run("role", "actor")
  theirs.run("role", "actor")
  folder = ours.folder
  with served(host="localhost", **_files(folder, "server")) as server:
    console = Console(server.address, tls=_files(folder, "actor"))
    console.reset()
    assert console.step([[0.0]])[1].tolist() == [1.0]
    console.close()
    stranger = _files(theirs.folder, "actor") | {"tls_ca": str(ours.ca)}
    for tls in (None, stranger, _files(theirs.folder, "actor")):
      with pytest.raises(UserError, match=r"^The console at localhost:\d+ d.*: see that it runs there"):
        Console(server.address, tls=tls, timeouts={"start": 0.5})
  key = pathlib.Path(_files(folder, "actor")["tls_key"])
  with pytest.raises(UserError, match="do not match or cannot be read"):
    Console("localhost:1", tls=_files(folder, "actor") | {"tls_cert": str(folder / "server.crt")})
  key.chmod(0o644)
  with pytest.raises(UserError, match=r"Others can read the key .* write 'chmod 600"):
    Console("localhost:1", tls=_files(folder, "actor"))

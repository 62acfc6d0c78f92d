"""Certificates for tests, made by the script that users have, and such as it would never make."""

import pathlib
import shutil
import subprocess

import pytest

_ROOT = pathlib.Path(__file__).parents[1]
_SCRIPT = _ROOT / "docker" / "tls" / "certificates.sh"
_SECONDS = 30

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no command openssl")
needs_stunnel = pytest.mark.skipif(
  shutil.which("openssl") is None or shutil.which("stunnel4") is None, reason="there is no stunnel4 or no openssl"
)


class Authority:
  """A CA.

  Attributes:
    folder: that holds its files, and those of all certificates.
  """

  def __init__(self, folder: pathlib.Path):
    """Makes the CA in a new folder."""
    self.folder = folder
    self.run("ca")

  @property
  def ca(self) -> pathlib.Path:
    """The CA's own certificate."""
    return self.folder / "ca.crt"

  @property
  def crl(self) -> pathlib.Path:
    """The list of revoked certificates."""
    return self.folder / "crl.pem"

  def run(self, command: str, *words: str) -> None:
    """Runs the script."""
    done = subprocess.run(
      [str(_SCRIPT), command, str(self.folder), *words], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr

  def dated(self, name: str, start: str, end: str, usage: str = "clientAuth", names: str = "") -> None:
    """Makes a certificate that is valid from `start` to `end`, such as "20200101000000Z"."""
    extensions = self.folder / "ca" / "extensions"
    extensions.write_text(f"extendedKeyUsage = {usage}\n" + (f"subjectAltName = {names}\n" if names else ""))
    request = ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"]
    self._openssl(*request, "-keyout", f"{name}.key", "-out", "ca/request")
    dates = ["-startdate", start, "-enddate", end]
    self._openssl(
      "ca", "-batch", *dates, "-notext", "-extfile", str(extensions), "-in", "ca/request", "-out", f"{name}.crt"
    )

  def _openssl(self, command: str, *words: str) -> None:
    done = subprocess.run(
      ["openssl", command, "-config", "ca/openssl.cnf", *words],
      cwd=self.folder,
      capture_output=True,
      text=True,
      timeout=_SECONDS,
      check=False,
    )
    assert done.returncode == 0, done.stderr

  def flags(self, name: str) -> list[str]:
    """The flags of a process that has the certificate `name`."""
    return [
      f"--tls_cert={self.folder / name}.crt",
      f"--tls_key={self.folder / name}.key",
      f"--tls_ca={self.ca}",
    ]


def make_expired(authority: Authority) -> None:
  """Makes the certificates `expired` and `early`: one that was valid once, and one that will be."""
  authority.dated("expired", "20200101000000Z", "20210101000000Z")
  authority.dated("early", "20900101000000Z", "20910101000000Z")

"""gRPC's own TLS, with the files that all roles use: a certificate, its key, and the CA's certificate, on both sides."""

import pathlib
import ssl
from collections.abc import Mapping

import grpc

from configs.errors import UserError
from configs.files import check_secret

_FLAGS = ("tls_cert", "tls_key", "tls_ca")


def read_files(paths: Mapping[str, str]) -> tuple[bytes, bytes, bytes] | None:
  """The contents of certificate, key and the CA's certificate; None if no path is given.

  Args:
    paths: "tls_cert", "tls_key" and "tls_ca" -> file.

  Raises:
    UserError: only some are given, one cannot be read, others can read the key, or key and certificate do not match.
  """
  unknown = sorted(set(paths) - set(_FLAGS))
  if unknown:
    raise UserError(f"TLS has no file {unknown[0]!r}: it needs {', '.join(_FLAGS[:2])} and {_FLAGS[2]}.")
  missing = [name for name in _FLAGS if not paths.get(name)]
  if len(missing) == len(_FLAGS):
    return None
  if missing:
    raise UserError(f"--{missing[0]} is missing: TLS needs --tls_cert, --tls_key and --tls_ca together.")
  cert, key, ca = (_read(name, pathlib.Path(paths[name])) for name in _FLAGS)
  check_secret(pathlib.Path(paths["tls_key"]))
  _check_pair(paths)
  return cert, key, ca


def for_server(paths: Mapping[str, str]) -> grpc.ServerCredentials | None:
  """Credentials of a console, which lets in workers with a certificate of the CA alone; None without files."""
  files = read_files(paths)
  if files is None:
    return None
  cert, key, ca = files
  return grpc.ssl_server_credentials([(key, cert)], root_certificates=ca, require_client_auth=True)


def for_client(paths: Mapping[str, str]) -> grpc.ChannelCredentials | None:
  """Credentials of a worker; None without files."""
  files = read_files(paths)
  if files is None:
    return None
  cert, key, ca = files
  return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)


def _read(flag: str, path: pathlib.Path) -> bytes:
  try:
    return path.read_bytes()
  except OSError as error:
    raise UserError(f"--{flag}: {path} cannot be read ({error.strerror}): check the path and who owns it.") from None


def _check_pair(paths: Mapping[str, str]) -> None:
  cert, key, ca = (paths[name] for name in _FLAGS)
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

  def refuse_password() -> str:
    raise UserError(f"The key {key} has a passphrase, and nobody could type it: write it without one.")

  try:
    context.load_cert_chain(cert, key, refuse_password)
  except ssl.SSLError as error:
    raise UserError(
      f"The certificate {cert} and its key {key} do not match or cannot be read ({error.reason}): name two PEM files of one "
      "certificate."
    ) from None
  try:
    context.load_verify_locations(ca)
  except ssl.SSLError as error:
    raise UserError(f"--tls_ca: {ca} cannot be read ({error.reason}): name the CA's certificate.") from None

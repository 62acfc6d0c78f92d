"""The files with which roles know each other over TLS. Whatever is wrong with them is said before anything starts."""

import dataclasses
import pathlib
import socket
import ssl
import time
from typing import NoReturn

from configs import UserError
from configs.files import check_secret
from replay_server.contract.probes import split_address

_SCRIPT = "docker/tls/certificates.sh"
# The codes with which OpenSSL refuses a certificate.
_NOT_YET_VALID, _EXPIRED, _REVOKED, _WRONG_PURPOSE = 9, 10, 23, 26
_CRL_REFUSED = {
  3: "is not of the CA",
  8: "is not signed by the CA",
  11: "is not valid yet",
  12: "has expired",
}
# A host name, or an IP address, that a certificate does not have.
_WRONG_NAME = (62, 64)
_HANDSHAKE_SECONDS = 3.0
# What a server says of a role's certificate, in OpenSSL's words and in ours.
_ALERTS = {
  "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid there, so check the clocks of both machines",
  "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it, or the server's list of revoked certificates, has expired there",
  "SSLV3_ALERT_CERTIFICATE_REVOKED": "it is revoked, so ask whoever runs the server for another one",
  "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": f"it is not a role's, so make one with '{_SCRIPT} role'",
  "TLSV1_ALERT_UNKNOWN_CA": "it is not of the server's CA, so ask whoever runs the server for one",
  "TLSV13_ALERT_CERTIFICATE_REQUIRED": "none has arrived",
}
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


@dataclasses.dataclass(frozen=True)
class Tls:
  """How a role proves who it is, and how it knows its server. All paths are absolute.

  Attributes:
    cert: the role's certificate, in PEM form; further certificates of its chain may follow it.
    key: its private key, which nobody else may read.
    ca: the certificate of the CA that everybody's certificate must come from.
  """

  cert: pathlib.Path
  key: pathlib.Path
  ca: pathlib.Path

  def __post_init__(self) -> None:
    """Checks the files."""
    self.check()

  def check(self) -> None:
    """Checks everything that can be wrong with the files, as they are now.

    Raises:
      UserError: one is missing, others can read the key, key and certificate do not match, or the certificate has expired, is
        not valid yet, or is not of the CA.
    """
    for flag, path in self.files.items():
      _check_readable(flag, path)
    check_secret(self.key)
    _check_holds(self.cert, "tls_cert", "CERTIFICATE-----")
    _check_holds(self.key, "tls_key", "PRIVATE KEY-----")
    _check_holds(self.ca, "tls_ca", "CERTIFICATE-----")
    self._check_authority()
    try:
      self._try_handshake()
    except ssl.SSLCertVerificationError as error:
      raise self._refused(error) from None

  @property
  def files(self) -> dict[str, pathlib.Path]:
    """Flag -> file."""
    return {"tls_cert": self.cert, "tls_key": self.key, "tls_ca": self.ca}

  @property
  def words(self) -> list[str]:
    """The flags for a process that this one starts."""
    return [f"--{flag}={path}" for flag, path in self.files.items()]

  def state(self) -> tuple[tuple[int, int], ...]:
    """Another one whenever a file is replaced or written."""
    return tuple(_state(path) for path in self.files.values())

  def refusal_of(self, address: str) -> str:
    """Why the server at "host:port" refuses this certificate, or this side the server's, as a sentence; "" if neither does.

    It shakes hands with the server as stunnel does, which cannot always tell: what is said before a connection is reset may be
    lost with it if the other side was already writing.
    """
    host, _ = split_address(address)
    context = self._verifier(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = True
    self._load_into(context)
    try:
      with (
        socket.create_connection(split_address(address), _HANDSHAKE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
      ):
        secured.recv(1)  # The server judges this side's certificate after the handshake.
    except ssl.SSLCertVerificationError as error:
      return _distrust(address, host, error)
    except ssl.SSLError as error:
      return self._explain(address, error.reason or "")
    except OSError:
      return ""  # It does not listen, or does not answer in time.
    return ""

  def _explain(self, address: str, reason: str) -> str:
    if reason in _NO_TLS:
      return f"The server at {address} does not speak TLS: leave out the flags --tls_*, or serve with them too."
    if reason in _ALERTS:
      return f"The server at {address} refuses the certificate {self.cert}: {_ALERTS[reason]}."
    return ""

  def _check_authority(self) -> None:
    for authority in self._verifier(ssl.PROTOCOL_TLS_CLIENT).get_ca_certs():
      if ssl.cert_time_to_seconds(str(authority["notAfter"])) < time.time():
        raise UserError(
          f"The CA's certificate {self.ca} has expired: make a new CA and new certificates with {_SCRIPT}."
        )
      if ssl.cert_time_to_seconds(str(authority["notBefore"])) > time.time():
        raise UserError(f"The CA's certificate {self.ca} is not valid yet: check this machine's clock.")

  def _try_handshake(self) -> None:
    """Lets OpenSSL judge the certificate as the server will."""
    server = self._verifier(ssl.PROTOCOL_TLS_SERVER)
    self._load_into(server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    self._load_into(client)
    _shake_hands(client, server)

  def _verifier(self, protocol: int) -> ssl.SSLContext:
    """A context that accepts what has a certificate of the CA."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
      context.load_verify_locations(self.ca)
    except ssl.SSLError as error:
      raise UserError(f"--tls_ca: {self.ca} cannot be read ({error.reason}): name the CA's certificate.") from None
    return context

  def _load_into(self, context: ssl.SSLContext) -> None:
    def refuse_password() -> NoReturn:
      raise UserError(
        f"The key {self.key} has a passphrase, and nobody could type it: write it without one, readable for its owner alone."
      )

    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
      context.load_cert_chain(self.cert, self.key, refuse_password)
    except ssl.SSLError as error:
      if error.reason == "KEY_VALUES_MISMATCH":
        raise UserError(
          f"The key {self.key} is not that of the certificate {self.cert}: name two files of one certificate."
        ) from None
      raise UserError(
        f"The certificate {self.cert} or its key {self.key} cannot be read ({error.reason}): make them again with {_SCRIPT}."
      ) from None

  def _refused(self, error: ssl.SSLCertVerificationError) -> UserError:
    if error.verify_code == _EXPIRED:
      return UserError(f"The certificate {self.cert} has expired: make it again with {_SCRIPT}.")
    if error.verify_code == _NOT_YET_VALID:
      return UserError(f"The certificate {self.cert} is not valid yet: check this machine's clock, or make it again.")
    if error.verify_code == _WRONG_PURPOSE:
      return self._wrong_purpose()
    return UserError(
      f"The certificate {self.cert} is not of the CA {self.ca} ({error.verify_message}): name the CA that has issued it."
    )

  def _wrong_purpose(self) -> UserError:
    return UserError(
      f"The certificate {self.cert} is a server's, and this role joins one: make its own with '{_SCRIPT} role'."
    )


@dataclasses.dataclass(frozen=True)
class ServerTls(Tls):
  """How a server proves who it is, and whom it lets in.

  Attributes:
    crl: the CA's list of revoked certificates; None without one.
    only: whether the server ends when others can reach its tables without TLS.
  """

  crl: pathlib.Path | None = None
  only: bool = False

  @property
  def files(self) -> dict[str, pathlib.Path]:
    """Flag -> file."""
    return {**super().files, **({} if self.crl is None else {"tls_crl": self.crl})}

  def _try_handshake(self) -> None:
    """Lets OpenSSL judge the certificate as the roles will."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    self._load_into(server)
    client = self._verifier(ssl.PROTOCOL_TLS_CLIENT)
    if self.crl is not None:
      client.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
      try:
        client.load_verify_locations(self.crl)
      except ssl.SSLError:
        raise UserError(
          f"--tls_crl: {self.crl} holds no list of revoked certificates in PEM form: name the CA's crl.pem."
        ) from None
    _shake_hands(client, server)

  def _refused(self, error: ssl.SSLCertVerificationError) -> UserError:
    if error.verify_code in _CRL_REFUSED:
      return UserError(
        f"The list of revoked certificates {self.crl} {_CRL_REFUSED[error.verify_code]} ({self.ca}): write it again with "
        f"'{_SCRIPT} revoke', or check this machine's clock."
      )
    if error.verify_code == _REVOKED:
      return UserError(f"The certificate {self.cert} is revoked: make it again with {_SCRIPT}.")
    return super()._refused(error)

  def _wrong_purpose(self) -> UserError:
    return UserError(
      f"The certificate {self.cert} is not a server's: make one with '{_SCRIPT} server', with the names that roles use."
    )


def _distrust(address: str, host: str, error: ssl.SSLCertVerificationError) -> str:
  """Why a server's certificate is refused, as a sentence."""
  what = f"The certificate of the server at {address}"
  if error.verify_code == _EXPIRED:
    return f"{what} has expired: make it again with {_SCRIPT}."
  if error.verify_code == _NOT_YET_VALID:
    return f"{what} is not valid yet: check this machine's clock."
  if error.verify_code == _WRONG_PURPOSE:
    return f"{what} is not a server's: somebody else may answer there."
  if error.verify_code in _WRONG_NAME:
    return f"{what} does not name {host}: use a name that it has, or make it again with '{_SCRIPT} server'."
  return f"{what} is not of the CA of --tls_ca ({error.verify_message}): check the address, or name the run's CA."


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
  """A handshake within this process.

  Raises:
    ssl.SSLCertVerificationError: an end refuses the other's certificate.
  """
  to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
  ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
  while ends:
    for end in list(ends):
      try:
        end.do_handshake()
      except ssl.SSLWantReadError:
        continue
      ends.remove(end)


def _check_readable(flag: str, path: pathlib.Path) -> None:
  if not str(path).isprintable():
    raise UserError(f"--{flag} names {str(path)!r}, which stunnel cannot read: give the file another name.")
  try:
    with path.open("rb"):
      return
  except OSError as error:
    raise UserError(f"--{flag}: {path} cannot be read ({error.strerror}): check the path and who owns it.") from None


def _check_holds(path: pathlib.Path, flag: str, what: str) -> None:
  if what.encode() not in path.read_bytes():
    noun = "private key" if "KEY" in what else "certificate"
    raise UserError(
      f"--{flag}: {path} holds no {noun} in PEM form: see 'openssl {'pkey' if 'KEY' in what else 'x509'}'."
    )


def _state(path: pathlib.Path) -> tuple[int, int]:
  try:
    status = path.stat()
  except OSError:
    return 0, 0  # It is being replaced.
  return status.st_mtime_ns, status.st_ino

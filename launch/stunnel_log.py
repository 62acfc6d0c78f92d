"""What stunnel says, read line by line, and what of it a server's log repeats in words of its own."""

import re

# "2026.11.23 15:16:34 LOG4[3]: CERT: Pre-verification error: certificate has expired"; the number is the connection's.
_LINE = re.compile(r"LOG(?P<level>\d)\[(?P<who>\w+)\]: (?P<text>.*)")
_ACCEPTED = re.compile(r"accepted connection from (?P<host>.*):\d+$")
_UP = "Accepting new connections"
_ERROR = 3
# What is said of a connection that is refused -> why, in words.
_REASONS = {
  "certificate has expired": "its certificate has expired",
  "certificate is not yet valid": "its certificate is not valid yet",
  "certificate revoked": "its certificate is revoked",
  "CRL has expired": "the list of revoked certificates (--tls_crl) has expired, so that nobody is let in: write it again",
  "unable to get certificate CRL": "its CA has no list of revoked certificates (--tls_crl)",
  "unable to get local issuer certificate": "its certificate is of another CA",
  "unable to verify the first certificate": "its certificate is of another CA",
  "self-signed certificate": "its certificate is of another CA",
  "certificate purpose": "its certificate is a server's",
  "peer did not return a certificate": "it has no certificate",
  "wrong version number": "it does not speak TLS",
  "http request": "it does not speak TLS",
  "unsupported protocol": "it does not speak TLS 1.3",
  "alert unknown ca": "it does not know the CA of this server's certificate",
  "alert certificate expired": "it finds this server's certificate expired",
  "alert unsupported certificate": "it finds that this server's certificate is not a server's",
  "alert internal error": "it looks for another name than those of this server's certificate",
}
# So that nobody can fill the log.
_MOST_REFUSALS = 1_000


class Log:
  """Reads what one stunnel after another says.

  Attributes:
    last_error: the last error that it has named; "" before the first.
  """

  def __init__(self) -> None:
    self.last_error = ""

  def read(self, line: str) -> bool:
    """Takes in a line; returns whether it says that stunnel listens."""
    found = _LINE.search(line)
    if found is None:
      return False
    if int(found["level"]) <= _ERROR:
      self.last_error = found["text"]
    self.note(found["who"], found["text"])
    return found["text"] == _UP

  def note(self, who: str, text: str) -> None:
    """Takes in a message about a connection; here does nothing.

    Args:
      who: number of the connection, or a part of stunnel.
      text: of the message.
    """


class ServerLog(Log):
  """Prints who is refused and why, once for each host and reason."""

  def __init__(self) -> None:
    super().__init__()
    self._hosts: dict[str, str] = {}
    self._said: set[tuple[str, str]] = set()

  def note(self, who: str, text: str) -> None:
    """Takes in a message about a connection; see `Log`."""
    accepted = _ACCEPTED.search(text)
    if accepted is not None:
      self._hosts[who] = accepted["host"].removeprefix("::ffff:")
    elif text.startswith("Connection "):  # Its end, in some way.
      self._hosts.pop(who, None)
    elif who in self._hosts:
      reason = next((words for words_of_stunnel, words in _REASONS.items() if words_of_stunnel in text), "")
      if reason:
        self._say(self._hosts[who], reason)

  def _say(self, host: str, reason: str) -> None:
    if (host, reason) in self._said or len(self._said) >= _MOST_REFUSALS:
      return
    self._said.add((host, reason))
    print(f"Refused a connection from {host}: {reason}.", flush=True)

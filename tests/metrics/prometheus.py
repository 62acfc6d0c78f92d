"""Debian's Prometheus, run for as long as the suite, and what it answers."""

import contextlib
import json
import math
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.faults.fleet import CaseFailed, wait_for
from tests.serving import free_port

PROGRAMS = ("prometheus", "promtool")
SCRAPE_SECONDS = 1
_ANSWER_SECONDS = 10.0
_CONFIG = """\
global: {{scrape_interval: {seconds}s, evaluation_interval: {seconds}s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: slipstream
    static_configs: [{{targets: {targets}}}]
"""


def missing() -> list[str]:
  """What this suite needs and this machine does not have."""
  return [program for program in PROGRAMS if shutil.which(program) is None]


class Prometheus:
  """A server that scrapes some ports of this machine every second."""

  def __init__(self, port: int):
    """Takes its port; `running` starts it."""
    self._address = f"http://127.0.0.1:{port}"

  def _get(self, path: str, **parameters: str) -> Any:
    url = f"{self._address}{path}?{urllib.parse.urlencode(parameters)}"
    try:
      with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS) as answer:
        return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
      with error:
        raise CaseFailed(f"Prometheus refuses {parameters}: {error.read().decode()[:300]}") from None

  def is_ready(self) -> bool:
    """Whether it answers."""
    with (
      contextlib.suppress(OSError),
      urllib.request.urlopen(f"{self._address}/-/ready", timeout=_ANSWER_SECONDS) as answer,
    ):
      return bool(answer.status == 200)
    return False

  def targets_up(self) -> list[str]:
    """The addresses that its last scrape reached."""
    return [target["scrapeUrl"] for target in self._get("/api/v1/targets")["activeTargets"] if target["health"] == "up"]

  def scrape_errors(self) -> list[str]:
    """What the last scrapes met."""
    return [target["lastError"] for target in self._get("/api/v1/targets")["activeTargets"] if target["lastError"]]

  def values(self, expression: str) -> dict[str, float]:
    """Labels, as a text -> value, of every series that an expression gives now; NaN and infinities are left out."""
    data = self._get("/api/v1/query", query=expression)
    if data["resultType"] == "scalar":
      return {"": float(data["result"][1])}
    found = {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in data["result"]}
    return {labels: value for labels, value in found.items() if math.isfinite(value)}

  def value(self, expression: str) -> float:
    """The largest value of an expression; NaN if it gives none."""
    return max(self.values(expression).values(), default=math.nan)

  def alerts(self) -> set[str]:
    """The names of the alerts whose condition holds, whether for long enough or not."""
    return {alert["labels"]["alertname"] for alert in self._get("/api/v1/alerts")["alerts"]}


@contextlib.contextmanager
def running(folder: pathlib.Path, ports: Sequence[int], rules: pathlib.Path) -> Iterator[Prometheus]:
  """A Prometheus that scrapes these ports; its process ends with the `with` statement."""
  folder.mkdir(parents=True)
  config, port = folder / "prometheus.yml", free_port()
  targets = json.dumps([f"127.0.0.1:{each}" for each in ports])
  config.write_text(_CONFIG.format(seconds=SCRAPE_SECONDS, rules=json.dumps(str(rules)), targets=targets))
  command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
  command.append(f"--web.listen-address=127.0.0.1:{port}")
  with (folder / "prometheus.log").open("w") as log:
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
  try:
    prometheus = Prometheus(port)
    wait_for(prometheus.is_ready, f"Prometheus answers ({folder / 'prometheus.log'})")
    yield prometheus
  finally:
    process.terminate()
    try:
      process.wait(20)
    except subprocess.TimeoutExpired:
      process.kill()
      process.wait()


def promtool(*arguments: str, text: str = "") -> str:
  """What promtool says of `text`, or of the files that it is given; empty if it accepts them.

  Raises:
    CaseFailed: it does not accept them.
  """
  done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=60, check=False)
  said = (done.stderr + (done.stdout if done.returncode else "")).strip()
  if done.returncode or (said and "metrics" in arguments):
    raise CaseFailed(f"promtool {' '.join(arguments)}: {said}")
  return said


def dashboard_expressions(path: pathlib.Path) -> Mapping[str, list[str]]:
  """Title of a panel -> its expressions, as Grafana would ask them of every job."""
  panels = json.loads(path.read_text())["panels"]
  return {
    panel["title"]: [
      target["expr"].replace("$__rate_interval", "30s").replace("$job", ".+") for target in panel.get("targets", [])
    ]
    for panel in panels
    if panel["type"] != "row"
  }

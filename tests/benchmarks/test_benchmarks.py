"""Benchmarks run and print figures; `make bench` says how fast things are."""

import json
import math
import pathlib
import sys
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.measure import Figure, Ratio, interleave
from benchmarks.peer import Peer
from tests.certificates import needs_stunnel

# Their smallest forms are whole runs, or many processes, and take a third of the time of all: `make bench ARGS=--quick` has them.
_LONG = ("continuous", "sbx", "start")


@pytest.mark.parametrize(
  "name",
  [pytest.param(name, marks=needs_stunnel if name == "tls" else ()) for name in command.NAMES if name not in _LONG],
)
def test_the_smallest_form_of_a_benchmark_prints_finite_positive_figures(
  name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  file = tmp_path / "figures.json"
  assert command.main([name, "--quick", "--json", str(file)]) == 0
  (report,) = json.loads(file.read_text())
  figures: list[dict[str, Any]] = report["figures"]
  ratios: list[dict[str, Any]] = report["ratios"]
  assert figures
  rates = [value for figure in figures if figure["unit"] != "bytes" for value in figure["values"]]
  pairs = [value for ratio in ratios for value in (ratio["median"], *ratio["pairs"])]
  assert all(math.isfinite(value) and value > 0 for value in rates + pairs)
  # The server's memory grows in pages, so that a difference over a few steps can be anything.
  assert all(math.isfinite(value) for figure in figures for value in figure["values"])
  printed = capsys.readouterr().out
  assert f"== {name} ==" in printed
  assert all(entry["what"] in printed for entry in figures + ratios)


def test_contenders_take_turns_and_their_first_run_does_not_count() -> None:
  order: list[str] = []

  def contender(name: str) -> dict[str, float]:
    order.append(name)
    return {"rate": float(len(order))}

  measured = interleave({"a": lambda: contender("a"), "b": lambda: contender("b")}, runs=2)
  assert order == ["a", "b"] * 3
  assert measured == {"a": {"rate": (3.0, 5.0)}, "b": {"rate": (4.0, 6.0)}}


def test_a_ratio_is_of_the_medians_and_its_pairs_are_of_runs_side_by_side() -> None:
  ratio = Ratio.of("a / b", Figure("a", "1/s", (1.0, 9.0, 4.0)), Figure("b", "1/s", (2.0, 3.0, 4.0)))
  assert ratio.median == 4.0 / 3.0
  assert ratio.pairs == (0.5, 3.0, 1.0)


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
  with pytest.raises(SystemExit) as ended:
    command.main(["adders"])
  assert ended.value.code == 2
  assert "there is no benchmark adders" in capsys.readouterr().err


def _interpreter(folder: pathlib.Path, *lines: str) -> pathlib.Path:
  """Stands for a Python with cpprb: whatever it is to run, it runs these lines."""
  file = folder / "python"
  file.write_text("\n".join([f"#!{sys.executable}", "import sys", *lines]))
  file.chmod(0o755)
  return file


def test_the_peer_is_asked_for_each_run_and_ends_with_the_benchmark(tmp_path: pathlib.Path) -> None:
  answer = "for line in sys.stdin: print({'uniform 256 0.5': 3.0, 'prioritized 32 0.5': 2.0}[line.strip()], flush=True)"
  with Peer(_interpreter(tmp_path, "print('ready', flush=True)", answer), "cpprb_peer.py", (100,), "cpprb") as peer:
    contenders = [peer.contender("uniform", 256, 0.5), peer.contender("prioritized", 32, 0.5)]
    assert [contender() for contender in contenders * 2] == [{"transitions": 3.0}, {"transitions": 2.0}] * 2


def test_a_python_without_cpprb_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
  with pytest.raises(RuntimeError, match="does not run cpprb"):
    Peer(_interpreter(tmp_path, "sys.exit(1)"), "cpprb_peer.py", (100,), "cpprb")
  with pytest.raises(SystemExit):
    command.main(["replay", "--cpprb", str(tmp_path / "absent")])
  assert "there is no file" in capsys.readouterr().err

"""`slipstream doctor`: what is wrong with this machine, or with an address, and what to do."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from slipstream.commands.command import Arguments, Command

if TYPE_CHECKING:
  from launch.doctor import Finding

_STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_string("server", "", "host:port of a replay server to check as well.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print the findings as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from launch.doctor import examine_address, examine_gpu, examine_machine

  values = arguments.flags
  parts = {"This machine": examine_machine(), "GPU": examine_gpu()}
  if values.server:
    parts[f"Server {values.server}"] = examine_address(values.server)
  if values.json:
    print(json.dumps({name: [dataclasses.asdict(finding) for finding in part] for name, part in parts.items()}))
  else:
    _print(parts)
  return 2 if _wrong(parts) else 0


def _wrong(parts: "Mapping[str, Sequence[Finding]]") -> int:
  return sum(finding.state == "wrong" for part in parts.values() for finding in part)


def _print(parts: "Mapping[str, Sequence[Finding]]") -> None:
  from rich.console import Console

  console = Console(soft_wrap=True)
  for name, findings in parts.items():
    console.print(f"[bold]{name}[/bold]")
    for finding in findings:
      console.print(f"  [{_STYLES[finding.state]}]{finding.state:5}[/] {finding.name}: ", end="", highlight=False)
      console.print(finding.text, markup=False, highlight=False)
  wrong = _wrong(parts)
  console.print("Nothing is wrong." if not wrong else f"{wrong} {'thing is' if wrong == 1 else 'things are'} wrong.")


COMMAND = Command("doctor", "what is wrong with this machine, or with an address", _define_flags, _run)

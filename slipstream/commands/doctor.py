"""`slipstream doctor`: what is wrong with this machine, or with an address, and what to do."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from configs import UserError
from configs.exit_codes import ExitCode
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_tls, given_endpoint

if TYPE_CHECKING:
  from launch.doctor import Finding

_STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_string("server", "", "host:port of a replay server to check as well, or @RUN_DIR.", flag_values=values)
  define_tls(values)
  flags.DEFINE_bool("json", False, "Print the findings as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from launch.doctor import examine_gpu, examine_machine, examine_server

  values = arguments.flags
  given = [name for name in ("tls_cert", "tls_key", "tls_ca") if values[name].value]
  if given and not values.server:
    raise UserError(f"--{given[0]} is for a server: add --server=host:port, or leave it out.")
  parts = {"This machine": examine_machine(), "GPU": examine_gpu()}
  if values.server:
    parts[f"Server {values.server}"] = examine_server(given_endpoint(values))
  if values.json:
    print(json.dumps({name: [dataclasses.asdict(finding) for finding in part] for name, part in parts.items()}))
  else:
    _print(parts)
  return ExitCode.MISTAKE if _wrong(parts) else ExitCode.DONE


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


COMMAND = Command("doctor", "what is wrong with this machine, or with an address", _define_flags, _run, parity=CLIENT)

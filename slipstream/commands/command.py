"""What a command is, and how its arguments are read."""

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence

from absl import flags

from configs import UserError

_OVERRIDE = "--config."
_ENVIRONMENT = "--environment."


@dataclasses.dataclass(frozen=True)
class Arguments:
  """The arguments of a command, as typed after its name.

  Attributes:
    flags: the command's flags, parsed.
    overrides: path -> value of each `--config.path=value`; empty for a command without --config.
    environment: name -> value of each `--environment.name=value`; empty for a command that takes none.
  """

  flags: flags.FlagValues
  overrides: Mapping[str, str]
  environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Command:
  """One command. If it has a flag --config, it takes `--config.path=value` as well.

  Attributes:
    name: as typed.
    summary: one line of help.
    define_flags: adds its flags.
    run: runs it; returns the exit code. Imports what is slow to import, so that help stays quick.
    positional: a flag whose value may also be given as the first word, without dashes; all such words if the flag takes several
      values.
    parity: of its process id, for a command that talks to a server; see `launch.process_id`.
    takes_environment: whether it takes `--environment.name=value`, which replaces an argument of the run's environment.
  """

  name: str
  summary: str
  define_flags: Callable[[flags.FlagValues], None]
  run: Callable[[Arguments], int]
  positional: str = ""
  parity: int | None = None
  takes_environment: bool = False

  def parse(self, words: Sequence[str]) -> Arguments:
    """Reads what was typed after the command's name.

    Raises:
      UserError: a word is not a flag of this command, or a value does not suit its flag.
    """
    rest, overrides = split_overrides(words)
    rest, environment = split_overrides(rest, _ENVIRONMENT)
    values = self._flags()
    if environment and not self.takes_environment:
      raise UserError(
        f"'slipstream {self.name}' takes no --environment.*: set environment.arguments in the config (--config.environment."
        "arguments.NAME=VALUE of 'train'), or give it to 'act', 'attach' or 'evaluate'."
      )
    if overrides and "config" not in values:
      raise UserError(
        f"'slipstream {self.name}' takes no --config.* of its own: give it to 'train', 'serve' or 'events'."
      )
    try:
      values.set_gnu_getopt(bool(self.positional))  # Flags may follow a word without dashes.
      rest = values([self.name, *rest])[1:]
      if self.positional and rest:
        words, rest = (rest, []) if self._takes_several(values) else (rest[:1], rest[1:])
        values[self.positional].parse(words if self._takes_several(values) else words[0])
    except flags.Error as error:
      raise UserError(_explain(error, self.name, values)) from None
    if rest:
      raise UserError(f"{rest[0]!r} is not a flag of 'slipstream {self.name}': flags begin with --.")
    return Arguments(values, overrides, environment)

  def help(self) -> str:
    """The command's summary and flags."""
    values = self._flags()
    several = " ..." if self._takes_several(values) else ""
    word = f" [{self.positional.upper()}{several}]" if self.positional else ""
    lines = [f"slipstream {self.name}{word}: {self.summary}", ""]
    for name in sorted(values):
      flag = values[name]
      default = "" if flag.default in ("", None, []) else f" [{flag.default}]"
      # absl adds a line of its own to flags that take several values.
      lines.append(f"  --{name}{default}\n      {flag.help.partition(';' + chr(10))[0]}")
    if self.takes_environment:
      lines.append(
        "  --environment.NAME=VALUE\n      An argument of this process's environments, in place of the config's."
      )
    return "\n".join(lines)

  def _takes_several(self, values: flags.FlagValues) -> bool:
    return bool(self.positional) and isinstance(values[self.positional], flags.MultiFlag)

  def _flags(self) -> flags.FlagValues:
    values = flags.FlagValues()  # type: ignore[no-untyped-call]  # absl's constructor has no annotations.
    self.define_flags(values)
    flags.DEFINE_bool(
      "verbose",
      False,
      "If an environment or other code of yours fails, print its traceback before the sentence.",
      flag_values=values,
    )
    return values


_TOLD = re.compile(r"(?:Missing value for )?flag --(?P<name>[\w-]+)(?:=(?P<value>.*))?", re.DOTALL)


def _explain(error: flags.Error, command: str, values: flags.FlagValues) -> str:
  """What absl's parser refused, as a sentence that says what to do."""
  if isinstance(error, flags.UnrecognizedFlagError):
    near = difflib.get_close_matches(error.flagname, list(values), n=1)
    hint = f"did you mean --{near[0]}?" if near else f"see 'slipstream {command} --help'."
    return f"'slipstream {command}' has no flag --{error.flagname}: {hint}"
  told = _TOLD.match(str(error))
  if told is None or told["name"] not in values:
    return f"The flags cannot be read ({str(error).removeprefix('ERROR:: ').rstrip('.')}): see 'slipstream {command} --help'."
  name, cause = told["name"], error.__context__
  if told["value"] is None:
    return f"--{name} has no value: write --{name}=VALUE."
  value = told["value"].removesuffix(f": {cause}")
  expected = values[name].parser.syntactic_help or "true or false"
  return f"--{name} is {value!r}: it must be {expected} (see 'slipstream {command} --help')."


def split_overrides(words: Sequence[str], prefix: str = _OVERRIDE) -> tuple[list[str], dict[str, str]]:
  """Takes `--config.path=value` (or `--config.path value`), or what else begins with `prefix`, out of a command line.

  Returns:
    The other words, and path -> value.

  Raises:
    UserError: an override has no value.
  """
  rest: list[str] = []
  overrides: dict[str, str] = {}
  waiting = iter(words)
  for word in waiting:
    if not word.startswith(prefix):
      rest.append(word)
      continue
    path, separator, value = word.removeprefix(prefix).partition("=")
    if not separator:
      value = next(waiting, "--")
      if value.startswith("--"):
        raise UserError(f"{word} has no value: write {word}=VALUE.")
    overrides[path] = value
  return rest, overrides

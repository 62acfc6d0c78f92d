"""`slipstream presets`: the configs that come with it."""

from absl import flags

from configs import PRESETS
from slipstream.commands.command import Arguments, Command


def _define_flags(values: flags.FlagValues) -> None:
  del values  # There are no flags.


def _run(arguments: Arguments) -> int:
  del arguments
  width = max(map(len, PRESETS))
  for name, get_config in sorted(PRESETS.items()):
    print(f"{name:{width}} {(get_config.__doc__ or '').strip().splitlines()[0]}")
  return 0


COMMAND = Command("presets", "the configs that come with it", _define_flags, _run)

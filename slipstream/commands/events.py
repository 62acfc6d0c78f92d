"""`slipstream events`: how a config's events fire."""

import math

from absl import flags

from configs import UserError
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import define_config, read_config


def _define_flags(values: flags.FlagValues) -> None:
  define_config(values)
  flags.DEFINE_integer("steps", 10_000, "Environment steps to look at.", flag_values=values, lower_bound=1)
  flags.DEFINE_string(
    "checkpoint",
    "",
    "A run directory or a policy file, whose policy acts; without it, actions are random. Without --config, the run's own "
    "config is used.",
    flag_values=values,
  )
  flags.DEFINE_float(
    "epsilon",
    None,
    "With --checkpoint: share of random actions; by default the workers' own.",
    flag_values=values,
    lower_bound=0.0,
    upper_bound=1.0,
  )
  flags.DEFINE_integer(
    "seed",
    None,
    "Seed of the world and the actions [the config's].",
    flag_values=values,
    lower_bound=0,
    upper_bound=2**31 - 1,
  )
  flags.DEFINE_bool("json", False, "Print the report as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from experiments.show_events import RollOut, load_policy, show_events
  from launch.world_watch import watching_worlds

  values = arguments.flags
  if values.epsilon is not None and math.isnan(values.epsilon):  # It passes the flag's bounds.
    raise UserError("--epsilon is 'nan': it must be a number in the range [0, 1] (see 'slipstream events --help').")
  if values.epsilon is not None and not values.checkpoint:
    raise UserError("--epsilon is for a policy: add --checkpoint, or leave --epsilon out, as all actions are random.")
  snapshot = load_policy(values.checkpoint) if values.checkpoint else None
  config = read_config(arguments, None if snapshot is None else snapshot[1])
  seed = config.seed if values.seed is None else values.seed
  with watching_worlds():
    return show_events(RollOut(config, values.steps, seed, snapshot, values.epsilon), values.json)


COMMAND = Command("events", "how a config's events fire, and advice on choosing them", _define_flags, _run)

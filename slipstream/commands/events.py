"""`slipstream events`: how a config's events fire, and proposals for others."""

import math
import pathlib

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
  flags.DEFINE_integer(
    "propose",
    None,
    "Look for so many events instead: rare places that most episodes pass on their way to the goal.",
    flag_values=values,
    lower_bound=1,
    upper_bound=29,
  )
  flags.DEFINE_string("out", "", "With --propose: a JSON file for the config with these events.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print the report as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from experiments.show_events import RollOut, load_policy, propose_events, show_events
  from launch.world_watch import watching_worlds

  values = arguments.flags
  if values.epsilon is not None and math.isnan(values.epsilon):  # It passes the flag's bounds.
    raise UserError("--epsilon is 'nan': it must be a number in the range [0, 1] (see 'slipstream events --help').")
  if values.epsilon is not None and not values.checkpoint:
    raise UserError("--epsilon is for a policy: add --checkpoint, or leave --epsilon out, as all actions are random.")
  if values.out and values.propose is None:
    raise UserError("--out is for the config with proposed events: add --propose, or leave --out out.")
  if values.json and values.propose is not None:
    raise UserError(
      "--json is for the report of events that there are: leave it out; --out writes proposed ones as JSON."
    )
  snapshot = load_policy(values.checkpoint) if values.checkpoint else None
  config = read_config(arguments, None if snapshot is None else snapshot[1])
  seed = config.seed if values.seed is None else values.seed
  roll_out = RollOut(config, values.steps, seed, snapshot, values.epsilon)
  with watching_worlds():
    if values.propose is not None:
      return propose_events(roll_out, values.propose, pathlib.Path(values.out) if values.out else None)
    return show_events(roll_out, values.json)


COMMAND = Command("events", "how a config's events fire, and advice on choosing them", _define_flags, _run)

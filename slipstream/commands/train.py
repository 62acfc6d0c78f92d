"""`slipstream train`: a local run, in several processes or in one."""

import pathlib

from absl import flags

from launch.process_id import SERVER
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  chosen_sinks,
  define_config,
  define_port,
  define_resume,
  define_run_root,
  define_sinks,
  read_config,
)


def _define_flags(values: flags.FlagValues) -> None:
  define_config(values)
  define_run_root(values)
  define_resume(values)
  define_port(values, 0)
  define_sinks(values)
  flags.DEFINE_bool(
    "inline", False, "Run in one process, with an exact number of environment steps per update.", flag_values=values
  )
  flags.DEFINE_float(
    "video_period_seconds",
    None,
    "Record a greedy episode as an animation this often while the run goes on; as --config.evaluator.video_period_seconds.",
    flag_values=values,
  )
  flags.DEFINE_bool("quiet", False, "Print nothing but the summary and the result.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from launch.train import train

  values = arguments.flags
  outcome = train(
    read_config(arguments),
    run_root=pathlib.Path(values.run_root),
    resume=values.resume,
    port=values.port,
    inline=values.inline,
    quiet=values.quiet,
    sinks=chosen_sinks(values),
  )
  print(outcome.summary)
  print(outcome.result, flush=True)
  return outcome.exit_code


COMMAND = Command("train", "a local run: server, learner, workers and evaluator", _define_flags, _run, parity=SERVER)

"""`slipstream evaluate`: plays, records and exports a stored policy, or evaluates a running job."""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import flags

from configs import UserError
from launch.process import run_role
from launch.process_id import CLIENT
from slipstream.commands.command import Arguments, Command
from slipstream.commands.flags import (
  define_allow_module,
  define_console,
  define_metrics_port,
  define_pythonpath,
  define_run_dir,
  define_server,
  define_server_timeout,
  given_console,
  given_endpoint,
  given_environment,
  given_run,
  given_trust,
)

_OF_A_SERVER = ("run_dir", "server_timeout", "allow_module", "metrics_port", "console", "tls_cert", "tls_key", "tls_ca")
_OF_A_CHECKPOINT = ("episodes", "video", "export")


def _define_flags(values: flags.FlagValues) -> None:
  define_server(values)
  define_server_timeout(values)
  define_pythonpath(values)
  define_allow_module(values)
  define_metrics_port(values)
  define_console(values)
  flags.DEFINE_string(
    "checkpoint",
    "",
    "Instead of --server: a run directory, or a policy file of one (checkpoints/policy/*.npz).",
    flag_values=values,
  )
  define_run_dir(values, "With --server: the run directory that keeps the best policy.")
  flags.DEFINE_integer(
    "episodes", 1, "With --checkpoint: episodes to play; 0 only exports.", flag_values=values, lower_bound=0
  )
  flags.DEFINE_bool("video", False, "With --checkpoint: record one more episode as an animation.", flag_values=values)
  flags.DEFINE_string(
    "export", "", "With --checkpoint: a folder to write the policy to, as a SavedModel.", flag_values=values
  )


def _run(arguments: Arguments) -> int:
  values = arguments.flags
  if bool(values.checkpoint) == bool(values.server):
    raise UserError("Give either --checkpoint (to play a stored policy) or --server (to evaluate a running job).")
  _refuse_unused(values)
  environment = given_environment(arguments)
  if values.checkpoint:
    return _play(values, environment)
  from launch.metrics.exporter import opened_exporter

  server, trust, console = given_endpoint(values), given_trust(values), given_console(values)
  with opened_exporter(values.metrics_port, "evaluator", "evaluator") as exporter:
    from launch import roles  # It imports TensorFlow, while the exporter answers already.

    evaluate = functools.partial(
      roles.evaluate, endpoint=server, run=given_run(values), trust=trust, arguments=environment, console=console
    )
    return run_role("evaluator", evaluate, values.verbose, exporter)


def _refuse_unused(values: flags.FlagValues) -> None:
  given = "checkpoint" if values.checkpoint else "server"
  unused = _OF_A_SERVER if values.checkpoint else _OF_A_CHECKPOINT
  for name in unused:
    if values[name].present:
      raise UserError(f"--{name} has no effect with --{given}: leave it out (see 'slipstream evaluate --help').")


def _play(values: flags.FlagValues, environment: Mapping[str, Any]) -> int:
  """Plays, records and exports a stored policy; returns the exit code. An export alone needs no environment."""
  import numpy as np

  from configs.measures import mean_measures
  from launch.roles import environment_spec
  from launch.stored_policy import check_export, export_policy, play_policy, policy_path, save_video
  from launch.world_watch import watching_worlds
  from replay_server.contract.policy import load_snapshot

  episodes, video, export = values.episodes, values.video, values.export
  if environment and not (episodes or video):
    raise UserError(
      "--environment.* has no effect where nothing is played: leave it out, or give --episodes or --video."
    )
  if not (episodes or video or export):
    raise UserError("There is nothing to do with the policy: give --episodes, --video or --export.")
  path = policy_path(pathlib.Path(values.checkpoint))
  stored = load_snapshot(path)
  snapshot, config = stored.snapshot, stored.config.with_arguments("evaluator", environment)
  if export:
    check_export(pathlib.Path(export))  # Before episodes are played, which may take long.
  if environment:
    environment_spec(config)  # The policy knows no other spaces.
  print(f"Policy {snapshot.version} ({snapshot.learner_steps} gradient steps) of {config.name}, from {path}.")
  with watching_worlds():
    played = play_policy(config, snapshot, episodes) if episodes else []
  for number, episode in enumerate(played):
    fired = [event.name for bit, event in enumerate(config.events) if episode.events >> bit & 1]
    measured = "".join(f", {name} {value:g}" for name, value in episode.measures.items())
    print(
      f"  episode {number}: return {episode.episode_return:g}, {episode.length} steps{measured}, "
      f"events: {', '.join(fired) or 'none'}"
    )
  if video:
    with watching_worlds():
      print(f"Video: {save_video(config, snapshot, path)}")
  if export:
    export_policy(stored, pathlib.Path(export))
    print(f"SavedModel: {export}")
  if not played:
    return 0
  returns, lengths = [episode.episode_return for episode in played], [episode.length for episode in played]
  result = {
    "episodes": episodes,
    "mean_return": float(np.mean(returns)),
    "std_return": float(np.std(returns)),
    "mean_length": float(np.mean(lengths)),
    "measures": mean_measures(episode.measures for episode in played),
  }
  print(f"RESULT {json.dumps(result)}", flush=True)
  return 0


COMMAND = Command(
  "evaluate",
  "a stored policy, or an evaluator against a server",
  _define_flags,
  _run,
  parity=CLIENT,
  takes_environment=True,
)

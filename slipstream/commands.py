"""The commands: each has flags of its own and a function that takes them."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import flags

from configs import PRESETS, RunConfig, UserError, load_config, override, to_json
from configs.baselines import BASELINES, apply_baseline
from launch.process import ATTACHED, RoleProcess, stop_on_signals
from launch.run_directory import RunDirectory, create_run_directory, open_run_directory

_OVERRIDE = "--config."


@dataclasses.dataclass(frozen=True)
class Command:
  """One command.

  Attributes:
    name: as typed.
    summary: one line of help.
    define: adds its flags.
    run: does it; returns the exit code.
    takes_config: whether it has --config and its overrides.
    positional: a flag that may also be given as a first word without dashes.
  """

  name: str
  summary: str
  define: Callable[[flags.FlagValues], None]
  run: Callable[[flags.FlagValues, Mapping[str, str]], int]
  takes_config: bool = False
  positional: str = ""


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
  """Takes `--config.path=value` (or `--config.path value`) out of arguments.

  Returns:
    The other arguments, and path -> value.

  Raises:
    UserError: an override has no value.
  """
  rest: list[str] = []
  overrides: dict[str, str] = {}
  waiting = iter(arguments)
  for argument in waiting:
    if not argument.startswith(_OVERRIDE):
      rest.append(argument)
      continue
    path, separator, value = argument.removeprefix(_OVERRIDE).partition("=")
    if not separator:
      value = next(waiting, "--")
      if value.startswith("--"):
        raise UserError(f"{argument} has no value: write {argument}=VALUE.")
    overrides[path] = value
  return rest, overrides


def _define_config(values: flags.FlagValues) -> None:
  flags.DEFINE_string(
    "config",
    "",
    f"A preset ({', '.join(sorted(PRESETS))}), or a .py file with get_config(), or a .json file. --config.path.to.key=value "
    "changes a value of it; tables and events are reached by name, as in --config.replay.tables.done.probability=0.2.",
    flag_values=values,
  )
  flags.DEFINE_string(
    "method",
    "",
    f"Makes the config into that of a method of the comparison ({', '.join(BASELINES)}), before --config.* changes it.",
    flag_values=values,
  )
  flags.DEFINE_bool("print_config", False, "Print the config as JSON and do nothing else.", flag_values=values)
  _define_pythonpath(values)


def _define_pythonpath(values: flags.FlagValues) -> None:
  flags.DEFINE_string(
    "pythonpath",
    "",
    "Folders, separated by ':', from which environments and event conditions of your own are imported.",
    flag_values=values,
  )


def _define_server(values: flags.FlagValues) -> None:
  flags.DEFINE_string("server", "", "The replay server, host:port.", flag_values=values)


def _define_run_root(values: flags.FlagValues) -> None:
  flags.DEFINE_string("run_root", "runs", "Folder below which run directories lie.", flag_values=values)


def _define_port(values: flags.FlagValues, default: int) -> None:
  flags.DEFINE_integer("port", default, "Port of the replay server; 0 takes a free one.", flag_values=values)


def _define_resume(values: flags.FlagValues) -> None:
  flags.DEFINE_string(
    "resume", "", "A run directory to go on with: its replay, networks and counters.", flag_values=values
  )


def add_pythonpath(values: flags.FlagValues) -> None:
  """Makes --pythonpath importable here, and in processes that this one starts."""
  folders = [str(pathlib.Path(folder).resolve()) for folder in values.pythonpath.split(os.pathsep) if folder]
  for folder in folders:
    if not pathlib.Path(folder).is_dir():
      raise UserError(f"--pythonpath names {folder}, which is not a folder: check the path.")
  sys.path[:0] = folders


def read_config(values: flags.FlagValues, overrides: Mapping[str, str]) -> RunConfig:
  """The config that --config, --resume, --method and overrides make, in this order.

  Raises:
    UserError: there is none, or it is refused.
  """
  resume = getattr(values, "resume", "")
  if resume and values.config:
    raise UserError(
      "Both --config and --resume are given: a resumed run has its config; change it with --config.KEY=VALUE."
    )
  if resume and values.method:
    raise UserError("Both --method and --resume are given: a resumed run has its method.")
  if resume:
    config = open_run_directory(resume).read_config()
  elif values.config:
    config = load_config(values.config)
  else:
    raise UserError(f"No --config is given: name a preset ({', '.join(sorted(PRESETS))}) or a file.")
  if values.method:
    config = apply_baseline(config, values.method)
  return override(config, overrides)


def require_server(values: flags.FlagValues) -> str:
  """The --server flag.

  Raises:
    UserError: it is not given.
  """
  if not values.server:
    raise UserError("No --server is given: write --server=host:port of a running replay server.")
  return str(values.server)


def _define_train(values: flags.FlagValues) -> None:
  _define_config(values)
  _define_run_root(values)
  _define_resume(values)
  _define_port(values, 0)
  flags.DEFINE_bool("inline", False, "One process, with exact environment steps per update.", flag_values=values)
  flags.DEFINE_bool("quiet", False, "Print nothing but the summary and the result.", flag_values=values)


def _train(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch.train import train

  outcome = train(
    read_config(values, overrides),
    run_root=pathlib.Path(values.run_root),
    resume=values.resume,
    port=values.port,
    inline=values.inline,
    quiet=values.quiet,
  )
  print(outcome.summary)
  print(outcome.result, flush=True)
  return outcome.exit_code


def _define_serve(values: flags.FlagValues) -> None:
  _define_config(values)
  _define_run_root(values)
  _define_resume(values)
  _define_port(values, 8000)


def _serve(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch import roles
  from launch.train import refuse_finished
  from replay_server.process.memory import check_memory
  from replay_server.process.server import check_port

  config = read_config(values, overrides)
  check_port(values.port)
  print(check_memory(config, roles.row_codec(config)), flush=True)
  if values.resume:
    run = open_run_directory(values.resume)
    refuse_finished(run, config)
  else:
    run = create_run_directory(config, pathlib.Path(values.run_root))
  print(f"Run directory: {run.path}", flush=True)
  with stop_on_signals() as stop:
    process = RoleProcess("server", stop)
    return process.run(lambda: roles.serve(process, config, run, values.port))


def _define_learn(values: flags.FlagValues) -> None:
  _define_server(values)
  _define_run_root(values)
  _define_pythonpath(values)
  flags.DEFINE_string(
    "run_dir", "", "The run's directory, for its checkpoints; empty takes RUN_ROOT/<name>/<run id>.", flag_values=values
  )
  flags.DEFINE_string(
    "device", "", "A TensorFlow device, as GPU:0; empty takes the config's learner.device.", flag_values=values
  )


def _learn(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch import roles

  del overrides
  server = require_server(values)
  run = RunDirectory(pathlib.Path(values.run_dir).resolve()) if values.run_dir else None
  with stop_on_signals() as stop:
    process = RoleProcess("learner", stop)
    return process.run(lambda: roles.learn(process, server, pathlib.Path(values.run_root), run, values.device))


def _define_act(values: flags.FlagValues) -> None:
  _define_server(values)
  _define_pythonpath(values)
  flags.DEFINE_string("name", "", "Unique in the run; empty takes actor_<index>.", flag_values=values)
  flags.DEFINE_integer("index", 0, "Of the worker: tells its seed and its exploration rate.", flag_values=values)


def _act(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch import roles

  del overrides
  server = require_server(values)
  with stop_on_signals() as stop:
    process = RoleProcess(values.name or f"actor_{values.index}", stop)
    if ATTACHED in os.environ:
      process.watch_parent()
    return process.run(lambda: roles.act(process, server, values.index))


def _define_evaluate(values: flags.FlagValues) -> None:
  _define_server(values)
  _define_pythonpath(values)
  flags.DEFINE_string(
    "checkpoint",
    "",
    "Instead of --server: a run directory, or a policy file of one (checkpoints/policy/*.npz).",
    flag_values=values,
  )
  flags.DEFINE_string("run_dir", "", "With --server: the run directory that keeps the best policy.", flag_values=values)
  flags.DEFINE_integer(
    "episodes", 1, "With --checkpoint: episodes to play; 0 only exports.", flag_values=values, lower_bound=0
  )
  flags.DEFINE_bool("video", False, "With --checkpoint: save the first episode as an animation.", flag_values=values)
  flags.DEFINE_string(
    "export", "", "With --checkpoint: a folder to write the policy to, as a SavedModel.", flag_values=values
  )


def _evaluate(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  del overrides
  if bool(values.checkpoint) == bool(values.server):
    raise UserError("Give either --checkpoint (to play a stored policy) or --server (to evaluate a running job).")
  if values.checkpoint:
    from launch.checkpoint import evaluate_checkpoint

    return evaluate_checkpoint(values.checkpoint, values.episodes, values.video, values.export)
  from launch import roles

  run = RunDirectory(pathlib.Path(values.run_dir).resolve()) if values.run_dir else None
  with stop_on_signals() as stop:
    process = RoleProcess("evaluator", stop)
    return process.run(lambda: roles.evaluate(process, values.server, run))


def _define_attach(values: flags.FlagValues) -> None:
  _define_server(values)
  _define_pythonpath(values)
  flags.DEFINE_integer("actors", 1, "Worker processes to add.", flag_values=values, lower_bound=1)


def _attach(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch.attach import attach

  del overrides
  return attach(require_server(values), values.actors, values.pythonpath)


def _define_status(values: flags.FlagValues) -> None:
  _define_server(values)
  flags.DEFINE_bool("watch", False, "Keep showing it until the run ends.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print it as JSON.", flag_values=values)


def _status(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch.show_status import show_status

  del overrides
  return show_status(require_server(values), values.watch, values.json)


def _define_events(values: flags.FlagValues) -> None:
  _define_config(values)
  flags.DEFINE_integer("steps", 10_000, "Environment steps to look at.", flag_values=values, lower_bound=1)
  flags.DEFINE_string(
    "checkpoint",
    "",
    "A run directory, or a policy file of one, whose policy acts; without it actions are random. Without --config the run's "
    "own config is taken.",
    flag_values=values,
  )
  flags.DEFINE_float(
    "epsilon",
    None,
    "With --checkpoint: share of random actions; the workers' own where it is left out.",
    flag_values=values,
    lower_bound=0.0,
    upper_bound=1.0,
  )
  flags.DEFINE_integer("seed", None, "Of the world and the actions [the config's].", flag_values=values, lower_bound=0)
  flags.DEFINE_bool("json", False, "Print the report as JSON.", flag_values=values)


def _events(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from experiments.show_events import RollOut, load_policy, show_events

  if values.epsilon is not None and not values.checkpoint:
    raise UserError("--epsilon is for a policy: add --checkpoint, or leave it out, as all actions are random.")
  snapshot = load_policy(values.checkpoint) if values.checkpoint else None
  config = read_config(values, overrides) if snapshot is None or values.config else override(snapshot[1], overrides)
  seed = config.seed if values.seed is None else values.seed
  return show_events(RollOut(config, values.steps, seed, snapshot, values.epsilon), values.json)


def _define_theory(values: flags.FlagValues) -> None:
  flags.DEFINE_float("eta", None, "Share of a batch that comes from all event tables together.", flag_values=values)
  flags.DEFINE_float("tau", None, "Length of a history in steps.", flag_values=values)
  flags.DEFINE_integer("events", 1, "n: event tables, which share eta equally.", flag_values=values)
  flags.DEFINE_float("mu", None, "Share of all steps at which an event occurs, at most.", flag_values=values)
  flags.DEFINE_float("gamma", None, "For the bound on samples: the discount.", flag_values=values)
  flags.DEFINE_float("accuracy", 0.1, "With --gamma: how far Q may be from Q*.", flag_values=values)
  flags.DEFINE_float(
    "rarest", None, "With --gamma: least probability with which a state-action pair is drawn.", flag_values=values
  )
  flags.DEFINE_float("commonest", None, "With --gamma: greatest such probability [--rarest].", flag_values=values)
  flags.DEFINE_string("plot", "", "A .png file for a picture over tau.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print the numbers as JSON.", flag_values=values)


def _theory(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from experiments.show_theory import QLearning, show_theory
  from experiments.theory import Setting

  del overrides
  missing = [name for name in ("eta", "tau", "mu") if values[name].value is None]
  if missing:
    raise UserError(f"No --{missing[0]} is given: write for example --eta=0.3 --tau=50 --events=2 --mu=0.001.")
  setting = Setting(values.eta, values.tau, values.events, values.mu)
  q_learning = None
  if values.gamma is not None:
    if values.rarest is None:
      raise UserError("--gamma needs --rarest, the least probability of a state-action pair: add --rarest=0.001, say.")
    commonest = values.rarest if values.commonest is None else values.commonest
    q_learning = QLearning(values.gamma, values.accuracy, values.rarest, commonest)
  elif values.rarest is not None or values.commonest is not None:
    raise UserError("--rarest and --commonest are for the bound on samples: add --gamma, the discount.")
  return show_theory(setting, q_learning, values.plot, values.json)


def _define_doctor(values: flags.FlagValues) -> None:
  flags.DEFINE_string("server", "", "host:port of a replay server to look at too.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print what was found as JSON.", flag_values=values)


def _doctor(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from launch.doctor import show_doctor

  del overrides
  return show_doctor(values.server, values.json)


def _define_nothing(values: flags.FlagValues) -> None:
  del values


def _presets(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  del values, overrides
  for name, get_config in sorted(PRESETS.items()):
    print(f"{name:23} {(get_config.__doc__ or '').strip().splitlines()[0]}")
  return 0


def _define_experiment(values: flags.FlagValues) -> None:
  flags.DEFINE_string("name", "", "Of the experiment; none lists all of them.", flag_values=values)
  flags.DEFINE_integer(
    "seeds", None, "Runs of every method; none takes the budget's.", flag_values=values, lower_bound=1
  )
  flags.DEFINE_integer(
    "jobs",
    None,
    "Runs at once, each with one core's work; none takes as many as there are cores.",
    flag_values=values,
    lower_bound=1,
  )
  flags.DEFINE_string("budget", "quick", "How much to run: quick takes minutes, paper hours.", flag_values=values)
  flags.DEFINE_string(
    "out", "", "Folder for runs, CSV, picture and table; empty takes runs/experiments/NAME/BUDGET.", flag_values=values
  )
  flags.DEFINE_string("methods", "", "Some of its methods, separated by commas; empty takes all.", flag_values=values)


def _experiment(values: flags.FlagValues, overrides: Mapping[str, str]) -> int:
  from experiments.command import run_command

  del overrides
  return run_command(values.name, values.seeds, values.jobs, values.budget, values.out, values.methods)


COMMANDS = {
  command.name: command
  for command in (
    Command("train", "a local run: server, learner, workers and evaluator", _define_train, _train, True),
    Command("serve", "the replay server alone", _define_serve, _serve, True),
    Command("learn", "a learner, against a server", _define_learn, _learn),
    Command("act", "one rollout worker, against a server", _define_act, _act),
    Command("evaluate", "a stored policy, or an evaluator against a server", _define_evaluate, _evaluate),
    Command("attach", "more workers for a running job", _define_attach, _attach),
    Command("status", "what a running job does", _define_status, _status),
    Command(
      "experiment",
      "a paper's experiment: its runs, curves and table",
      _define_experiment,
      _experiment,
      positional="name",
    ),
    Command("events", "how a config's events fire, and advice on choosing them", _define_events, _events, True),
    Command("theory", "what the SSET paper proves for a choice of shares and histories", _define_theory, _theory),
    Command("doctor", "what is wrong with this machine, or with an address", _define_doctor, _doctor),
    Command("presets", "the configs that come with it", _define_nothing, _presets),
  )
}


def print_config(values: flags.FlagValues, overrides: Mapping[str, str]) -> None:
  """Prints the config that a command would use."""
  print(to_json(read_config(values, overrides)))

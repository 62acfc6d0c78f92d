"""`slipstream theory`: what the SSET paper proves."""

from typing import TYPE_CHECKING

from absl import flags

from configs import UserError
from slipstream.commands.command import Arguments, Command

if TYPE_CHECKING:
  from experiments.show_theory import QLearning


def _define_flags(values: flags.FlagValues) -> None:
  flags.DEFINE_float("eta", None, "Share of a batch that comes from all event tables together.", flag_values=values)
  flags.DEFINE_float("tau", None, "Length of a history in steps.", flag_values=values)
  flags.DEFINE_integer("events", 1, "Number n of event tables, which share eta equally.", flag_values=values)
  flags.DEFINE_float("mu", None, "Upper bound of the share of all steps at which one event occurs.", flag_values=values)
  flags.DEFINE_float("gamma", None, "For the bound on samples: the discount.", flag_values=values)
  flags.DEFINE_float("accuracy", 0.1, "With --gamma: how far Q may be from Q*.", flag_values=values)
  flags.DEFINE_float(
    "rarest", None, "With --gamma: least probability with which a state-action pair is drawn.", flag_values=values
  )
  flags.DEFINE_float(
    "commonest", None, "With --gamma: greatest such probability; by default --rarest.", flag_values=values
  )
  flags.DEFINE_string("plot", "", "A .png file for a picture over tau.", flag_values=values)
  flags.DEFINE_bool("json", False, "Print the numbers as JSON.", flag_values=values)


def _run(arguments: Arguments) -> int:
  from experiments.show_theory import show_theory
  from experiments.theory import Setting

  values = arguments.flags
  missing = [name for name in ("eta", "tau", "mu") if values[name].value is None]
  if missing:
    raise UserError(f"No --{missing[0]} is given: write for example --eta=0.3 --tau=50 --events=2 --mu=0.001.")
  setting = Setting(values.eta, values.tau, values.events, values.mu)
  return show_theory(setting, _q_learning(values), values.plot, values.json)


def _q_learning(values: flags.FlagValues) -> "QLearning | None":
  from experiments.show_theory import QLearning

  if values.gamma is None:
    unused = [name for name in ("rarest", "commonest", "accuracy") if values[name].present]
    if unused:
      raise UserError(f"--{unused[0]} is for the bound on samples: add --gamma, the discount.")
    return None
  if values.rarest is None:
    raise UserError("--gamma needs --rarest, the least probability of a state-action pair: add --rarest=0.001, say.")
  commonest = values.rarest if values.commonest is None else values.commonest
  return QLearning(values.gamma, values.accuracy, values.rarest, commonest)


COMMAND = Command("theory", "what the SSET paper proves for a choice of shares and histories", _define_flags, _run)

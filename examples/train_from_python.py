"""Trains from Python instead of the command line: the corridor with two lengths, one after the other.

python examples/train_from_python.py [RUN_ROOT]
"""

import pathlib
import sys

import slipstream

CORRIDOR = pathlib.Path(__file__).resolve().parent / "corridor"


def main(run_root: pathlib.Path) -> None:
  """Trains in this process (`inline=True`); without it, each run would be a program of several processes."""
  sys.path.insert(0, str(CORRIDOR))  # What --pythonpath does: the config names its environment as "corridor:Corridor".
  config = slipstream.load_config(str(CORRIDOR / "config.py"))
  for length in (8, 12):
    shorter = slipstream.override(config, {"environment.arguments.length": str(length)})
    outcome = slipstream.train(shorter, run_root=run_root, inline=True, quiet=True)
    last = outcome.status.evaluations[-1]
    print(
      f"{length} cells: {'solved' if outcome.solved else 'not solved'} after {outcome.status.environment_steps} steps, "
      f"return {last.mean_return:.2f}; see {outcome.run_dir}"
    )


if __name__ == "__main__":
  main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))

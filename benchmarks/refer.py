"""Updates per second of V-RACER with ReF-ER through the memory, sweeps and far share included, against those on a fixed batch."""

import dataclasses

from benchmarks import learner, workload
from benchmarks.measure import Ratio, Report
from configs.presets import refer

# So that all of memory is swept in every run, as it is every thousand updates (ReF-ER, Appendix B).
_SECONDS = 8.0


def run(runs: int, quick: bool) -> Report:
  """Whole updates, one at a time, of the preset for HalfCheetah with a full memory."""
  rows, seconds = (2_000, 0.1) if quick else (2**18, _SECONDS)
  config = refer.get_config("v_racer", "HalfCheetah")
  default = dataclasses.replace(config.replay.default, min_size=1)
  replay = dataclasses.replace(config.replay, capacity=rows, default=default, environment_steps_per_update=None)
  config = workload.on_cpu(dataclasses.replace(config, replay=replay), quick)
  through_memory, fixed = learner.whole_learners(config, workload.make_spec(), seconds, runs, ("memory",))
  hidden = "x".join(map(str, config.network.hidden_sizes))
  return Report(
    "refer",
    (
      f"V-RACER with ReF-ER, {hidden} hidden units, batches of {config.learner.batch_size}, one update a call; {rows:,} rows of "
      f"HalfCheetah's size in episodes of {workload.EPISODE_STEPS:,} steps.",
      "Through the memory an update draws, sweeps the episodes that it has used, counts the far-policy steps of all of memory "
      "and moves beta; every thousand updates rewards are scaled anew and all of memory is swept.",
    ),
    (through_memory, fixed),
    (Ratio.of("through the memory / on a fixed batch", through_memory, fixed, required=0.6, aim=0.8),),
  )

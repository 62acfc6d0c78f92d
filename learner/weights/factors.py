"""The factors of the rows' weights that a run's config asks for."""

from collections.abc import Callable

from configs import RunConfig
from learner.sources.source import Weighting
from learner.weights.contents import TableContents
from learner.weights.corrections import BiasCorrection
from learner.weights.importance import ImportanceWeights
from replay_server.contract.codec import RowCodec


def make_weightings(
  config: RunConfig, codec: RowCodec, make_contents: Callable[[], TableContents]
) -> dict[str, Weighting]:
  """The factors, by the names under which a checkpoint keeps their states.

  Args:
    config: of the run.
    codec: of its rows.
    make_contents: makes what knows which rows the tables hold; called if a factor needs it.
  """
  weightings: dict[str, Weighting] = {}
  if any(table.selector == "prioritized" for table in config.replay.all_tables):
    weightings["importance"] = ImportanceWeights(config.replay)
  if config.learner.bias_correction != "none":
    weightings["correction"] = BiasCorrection(make_contents(), config.learner.bias_correction, codec)
  return weightings

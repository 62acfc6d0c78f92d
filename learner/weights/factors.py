"""The factors of the rows' weights that a run's config asks for."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from configs import RunConfig
from learner.sources.block import Block
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
  if any(table.draws_by_priority for table in config.replay.all_tables):
    weightings["importance"] = ImportanceWeights(config.replay)
  if config.learner.bias_correction != "none":
    weightings["correction"] = BiasCorrection(make_contents(), config.learner.bias_correction, codec)
  return weightings


def product(weightings: Mapping[str, Weighting], block: Block, updates: int) -> npt.NDArray[np.float32]:
  """The product of all factors, float32 [K, batch]; 1 where there are none. The other arguments are those of `Source.weights`."""
  weights = np.ones(block.tables.shape, np.float32)
  for weighting in weightings.values():
    weights *= weighting.weights(block, updates)
  return weights

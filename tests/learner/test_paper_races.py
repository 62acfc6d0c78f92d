"""The presets of the paper's races, with its networks, on the CPU."""

import numpy as np
import pytest

from configs import QrSacConfig, load_config
from environments import make_environment_spec, make_event_environment
from learner.updates import make_updates
from networks import flatten_weights
from replay_server.contract.layout import make_row_codec
from tests.learner.batches import pack, update


# The presets' 1,024 rows take the CPU ten seconds; an update of fewer does the same.
@pytest.mark.parametrize(("preset", "count"), [("slingshot_paper", 64), ("time_trial_paper", 32)])
def test_a_race_of_the_papers_size_makes_two_updates(preset: str, count: int) -> None:
  config = load_config(preset)
  assert isinstance(config.learner.algorithm, QrSacConfig)
  assert (config.network.hidden_sizes, config.learner.batch_size) == ((2048,) * 4, 1024)
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  updates = make_updates(config, make_row_codec(spec), spec, seed=1)
  before = flatten_weights(updates.algorithm.policy)
  assert config.learner == load_config("slingshot_paper").learner
  rng = np.random.default_rng(2)
  columns = {
    name: rng.uniform(-1, 1, (count, *array.shape))
    for name, array in (
      ("observation", spec.observations),
      ("next_observation", spec.observations),
      ("action", spec.actions),
    )
  }
  rows = pack(spec, **columns, reward=rng.normal(size=count), discount=np.ones(count))
  metrics, td_errors = update(updates, np.stack([rows, rows]))
  assert td_errors.shape == (2, count)
  assert np.isfinite(td_errors).all()
  assert all(np.isfinite(values).all() for values in metrics.values())
  assert updates.is_finite()
  assert not np.array_equal(flatten_weights(updates.algorithm.policy), before)

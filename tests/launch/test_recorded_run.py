"""A whole run with draws that follow from its steps: nothing but its config and its seed decides what it learns.

Tables are drawn from first or last in, first out, so that Reverb's generator takes no part. `recorded/run.json` holds the
evaluations of such a run, bit for bit. A change that should not change results keeps them; one that should writes them anew:
`python -m tests.launch.test_recorded_run`.
"""

import hashlib
import json
import pathlib
import tempfile
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from configs import RunConfig, load_config, override
from launch.inline import run_inline
from launch.run_directory import create_run_directory
from launch.view.run_view import RunView

RECORDED = pathlib.Path(__file__).with_name("recorded") / "run.json"
UPDATES, PERIOD = 1_000, 200
CONFIG = {
  "environment.arguments.room_size": "2",
  "environment.arguments.time_limit": "200",
  "environment_steps": str(200 + 4 * UPDATES),
  "replay.environment_steps_per_update": "4",
  "replay.default.min_size": "200",
  "replay.default.selector": "lifo",
  "replay.tables.0.selector": "fifo",
  "replay.tables.0.capacity": "40",
  "events.0.history": "30",
  "replay.tables.1.selector": "lifo",
  "actor.random_steps": "2000",
  "learner.updates_per_block": "4",
  "network.hidden_sizes": "(32,)",
  "learner.algorithm.epsilon": "0.7",
  "evaluator.period_updates": str(PERIOD),
  "evaluator.epsilon": "0.5",
  "evaluator.solved_evaluations": "0",
}
# None of these may matter: they change when things are written, and how far ahead a run of several processes would draw.
IRRELEVANT = {
  "learner.checkpoint_period_seconds": "0.3",
  "replay.checkpoint_period_seconds": "0.2",
  "learner.prefetch": "false",
  "replay.insert_tolerance_steps": "50",
  "evaluator.period_seconds": "9",
}

Evaluations = list[list[Any]]


def evaluations_of(config: RunConfig, folder: pathlib.Path) -> Evaluations:
  """A run's evaluations: gradient steps, return, mean return of the training episodes since, and a digest of the weights."""
  digests: dict[int, str] = {}

  def note(gradient_steps: int, weights: npt.NDArray[np.float32]) -> None:
    digests[gradient_steps] = hashlib.sha256(weights.tobytes()).hexdigest()[:16]

  status = run_inline(config, create_run_directory(config, folder), threading.Event(), RunView(quiet=True), note)
  return [
    [each.gradient_steps, each.mean_return, each.train_return, digests[each.gradient_steps]]
    for each in status.evaluations
  ]


def arithmetic() -> str:
  """A digest of how this machine rounds: processors with other instructions add in another order."""
  rng = np.random.default_rng(0)
  layers = [tf.constant(rng.standard_normal(shape, np.float32)) for shape in ((32, 3), (3, 32), (32, 3))]
  with tf.GradientTape() as tape:
    tape.watch(layers)
    loss = tf.reduce_mean(tf.square(tf.nn.relu(layers[0] @ layers[1]) @ layers[2]))
  parts = [loss, *tape.gradient(loss, layers)]
  acted = layers[0].numpy().dot(layers[1].numpy())
  return hashlib.sha256(b"".join([*(part.numpy().tobytes() for part in parts), acted.tobytes()])).hexdigest()[:16]


def the_config() -> RunConfig:
  """The recorded run's config."""
  return override(load_config("three_rooms"), CONFIG)


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Evaluations:
  return evaluations_of(the_config(), tmp_path_factory.mktemp("first"))


def test_a_run_gives_the_recorded_evaluations(evaluations: Evaluations) -> None:
  recorded = json.loads(RECORDED.read_text())
  if recorded["arithmetic"] != arithmetic():
    pytest.skip(
      "this processor rounds otherwise than the one of the record; the next test compares two runs on this one"
    )
  assert evaluations == recorded["evaluations"]


def test_a_run_does_not_depend_on_what_should_not_matter(evaluations: Evaluations, tmp_path: pathlib.Path) -> None:
  assert [gradient_steps for gradient_steps, *_ in evaluations] == list(range(PERIOD, UPDATES + 1, PERIOD))
  assert len({digest for *_, digest in evaluations}) == len(evaluations)
  again = evaluations_of(override(the_config(), IRRELEVANT), tmp_path)
  assert again == evaluations
  other = evaluations_of(override(the_config(), {"seed": "1", "environment_steps": "1200"}), tmp_path)
  assert other[0] != evaluations[0]


if __name__ == "__main__":
  with tempfile.TemporaryDirectory() as temporary:
    found = {"arithmetic": arithmetic(), "evaluations": evaluations_of(the_config(), pathlib.Path(temporary))}
  RECORDED.write_text(json.dumps(found, indent=1) + "\n")

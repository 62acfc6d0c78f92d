"""A further algorithm, gradient rule and source: only two registries and the config's union know of them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from actors.behaviour import Behaviour
from actors.engine import choose_actions
from configs import LearnerConfig, RunConfig, TableSpec, UserError, from_dict, override, to_dict
from configs import algorithms as algorithm_configs
from configs.algorithms import AlgorithmConfig
from learner import algorithms, gradients
from learner.algorithms.algorithm import Algorithm, Metrics, Outputs
from learner.checkpoint import LearnerCheckpoints
from learner.gradients import Batch, GradientRule, Loss
from learner.gradients.rule import LossFunction
from learner.learner import Learner, LearnerParts
from learner.optimizer import Optimizer
from learner.sources.block import Block
from learner.sources.source import Model
from learner.updates import make_updates
from networks import QNetwork, Trace, flatten_weights, make_acting_policy, make_q_network
from replay_server.contract.codec import RowCodec
from replay_server.contract.layout import make_row_codec, run_codec
from replay_server.contract.policy import PolicyPublisher, PolicySource

FIELDS = {"batch_size": 4, "updates_per_block": 2, "prefetch": False}


@dataclasses.dataclass(frozen=True)
class ToyConfig(AlgorithmConfig):
  """Q-learning whose rows hold the probability of their action.

  Attributes:
    decay: factor of its control per gradient step.
  """

  NAME = "toy"
  POLICY = "values"
  ACTIONS = "discrete"

  decay: float = 0.5

  def row_fields(self, action_shape: tuple[int, ...]) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    return {"probability": ("float32", ())}


class Toy(Algorithm):
  """Q-learning without a target network, its losses divided by the probability of the action and multiplied by a column."""

  METRICS = ("loss", "mean_q", "control")
  ROW_FIELDS = ("probability",)
  INPUTS = ("scale",)
  OUTPUTS = ("td_error", "value")

  policy: QNetwork

  def __init__(self, config: RunConfig, spec: specs.EnvironmentSpec, seed: int):
    super().__init__(config, make_q_network(config, spec, seed))
    assert isinstance(config.learner.algorithm, ToyConfig)
    self._decay = config.learner.algorithm.decay
    self._optimizer = Optimizer(self.policy.trainable_variables, config.learner.learning_rate)

  def controls(self, updates: int) -> Mapping[str, float]:
    return {"toy": self._decay**updates}

  def update(self, batch: Batch, rule: GradientRule) -> tuple[Metrics, Outputs]:
    features = self.policy.features(batch["observation"])

    def loss(trace: Trace | None) -> Loss:
      values = tf.gather(self.policy(features, trace), batch["action"], batch_dims=1)
      td_error = batch["reward"] - values
      scale = batch.columns["scale"] * batch.controls["toy"] / batch["probability"]
      return Loss(batch.weights * scale * tf.square(td_error), (td_error, values))

    rows, (td_error, values), _ = rule.minimise(self._optimizer, loss, batch)
    metrics = {"loss": tf.reduce_mean(rows), "mean_q": tf.reduce_mean(values), "control": batch.controls["toy"]}
    return metrics, {"td_error": td_error, "value": values}


class WorstRow(GradientRule):
  """Steps down the gradient of the row with the largest loss, times a control that is 1 and later 2."""

  @classmethod
  def is_asked_for(cls, config: LearnerConfig) -> bool:
    return isinstance(config.algorithm, ToyConfig)

  def controls(self, updates: int) -> Mapping[str, float]:
    return {"worst": 1.0 if updates < 2 else 2.0}

  def minimise(
    self,
    optimizer: Optimizer,
    loss: LossFunction,
    batch: Batch,
    penalty: Callable[[], tf.Tensor] | None = None,
  ) -> Loss:
    with tf.GradientTape() as tape:
      result = loss(None)
      objective = batch.controls["worst"] * tf.reduce_max(result.rows)
    optimizer.apply(tape.gradient(objective, optimizer.parameters))
    return result


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setitem(algorithm_configs.ALGORITHMS, "toy", ToyConfig)
  monkeypatch.setitem(algorithms.ALGORITHMS, "toy", Toy)
  monkeypatch.setattr(gradients, "RULES", [WorstRow, *gradients.RULES])


def _config(make_config: Any) -> RunConfig:
  return override(make_config([TableSpec("default", 1.0, min_size=4)], **FIELDS), {"learner.algorithm": "toy"})


def test_its_config_is_like_any_other_config(make_config) -> None:
  config = override(_config(make_config), {"learner.algorithm.decay": "0.25"})
  assert config.learner.algorithm == ToyConfig(0.25)
  assert to_dict(config)["learner"]["algorithm"] == {"name": "toy", "decay": 0.25}
  assert from_dict(to_dict(config)) == config
  with pytest.raises(UserError, match=r"no key 'learner\.algorithm\.decai': did you mean 'decay'"):
    override(config, {"learner.algorithm.decai": "1"})


def test_its_policy_acts(make_config, spec) -> None:
  config = _config(make_config)
  network = make_updates(config, run_codec(config, spec), spec, 0).algorithm.policy
  behaviour = Behaviour(
    spec.actions, np.random.default_rng(0), make_acting_policy(config, spec, flatten_weights(network))
  )
  observation = np.array([0.3, -0.2], np.float32)
  (choice,) = choose_actions([behaviour], [observation])
  assert choice.action == int(network.best_actions(observation[None])[0])


def test_rows_without_its_field_are_refused(make_config, spec) -> None:
  config = _config(make_config)
  with pytest.raises(ValueError, match=r"Toy reads \{'probability'\}, which rows do not have"):
    make_updates(config, make_row_codec(spec), spec, 0)


class ArraySource:
  """Batches from arrays in this process: a source that has no server."""

  table_names = ("default",)
  new_item_priorities = (1.0,)

  def __init__(self, rows: np.ndarray):
    self._rows = rows
    self._drawn = 0
    self.fed_back: list[tuple[np.ndarray, Mapping[str, np.ndarray]]] = []

  def use(self, model: Model) -> None:
    del model

  def is_ready(self) -> bool:
    return True

  def controls(self) -> Mapping[str, float]:
    return {}

  def next_block(self, while_waiting: Callable[[], None] = lambda: None) -> Block:
    slots = (np.arange(8).reshape(2, 4) + self._drawn) % len(self._rows)
    self._drawn += 8
    zeros = np.zeros((2, 4), np.int64)
    sizes = np.full((2, 4), len(self._rows))
    scale = np.full((2, 4), 2.0, np.float32)
    quotas = np.full((2, 1), 4)
    return Block(
      self._rows[slots], zeros, slots.astype(np.uint64), 1 / sizes, sizes, quotas, np.ones(1), columns={"scale": scale}
    )

  def draw_ahead(self) -> None:
    """Draws nothing ahead."""

  def weights(self, block: Block, updates: int) -> np.ndarray:
    return np.ones(block.tables.shape, np.float32)

  def feed_back(self, block: Block, outputs: Mapping[str, np.ndarray]) -> None:
    self.fed_back.append((block.handles, outputs))

  def describe_wait(self) -> str:
    return ""

  def wait(self) -> None:
    return None

  def metrics(self) -> Mapping[str, float]:
    return {"drawn": float(self._drawn)}

  def state(self) -> Mapping[str, np.ndarray]:
    return {"drawn": np.array(self._drawn)}

  def forget_all_but(self, states):
    del states

  def restore(self, state: Mapping[str, np.ndarray]) -> None:
    self._drawn = int(state.get("drawn", 0))

  def reopen(self) -> None:
    raise AssertionError("it has no server")

  def close(self) -> None:
    pass


def _rows(codec: RowCodec) -> np.ndarray:
  """Rows in which only the extra field, the reward and the observation are not 0, float32 [8, width]."""
  zeros = {field.name: np.zeros(field.shape, field.dtype) for field in codec.fields}
  given = [{"observation": np.array([row, 1], np.float32), "reward": 0.5, "probability": 0.25} for row in range(8)]
  packer = codec.packer()
  return np.stack([packer.pack({**zeros, **fields}) for fields in given])


def test_it_learns_from_a_source_without_tables_and_continues_from_its_checkpoint(make_config, serve, tmp_path) -> None:
  filled = serve(_config(make_config))
  manifest, connection = filled.server.manifest, filled.server.connection

  def make() -> Learner:
    parts = LearnerParts(
      updates=make_updates(filled.config, manifest.codec, filled.spec, 0),
      source=ArraySource(_rows(manifest.codec)),
      publisher=PolicyPublisher(connection),
      checkpoints=LearnerCheckpoints(tmp_path / "checkpoints"),
    )
    return Learner(filled.server.connection, manifest, parts, 0, filled.stop)

  learner = make()
  (before,) = learner.get_variables([])
  controls = []
  for _ in range(2):
    learner.step()
    controls.append(learner.metrics()["control"])
  assert controls == [1.0, 0.25]
  assert np.abs(learner.get_variables([])[0] - before).max() > 1e-4
  source = learner.parts.source
  assert isinstance(source, ArraySource)
  slots = [handles.tolist() for handles, _ in source.fed_back]
  assert slots == [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2
  for _, outputs in source.fed_back:
    assert outputs.keys() == {"td_error", "value"}
    np.testing.assert_allclose(outputs["td_error"] + outputs["value"], 0.5, atol=1e-6)  # Every reward is .5.
  learner.close()
  published = PolicySource(connection, "default").fetch()
  assert published is not None
  assert published.version == learner.policy_version == 1
  again = make()
  assert again.gradient_steps == 4
  assert again.parts.source.metrics() == {"drawn": 16}
  np.testing.assert_array_equal(again.get_variables([])[0], learner.get_variables([])[0])
  again.close()

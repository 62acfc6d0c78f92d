"""Runs and rows with behaviours, for V-RACER and ReF-ER."""

from typing import Any

import numpy as np
from acme import specs

from configs import ActorConfig, LearnerConfig, NetworkConfig, ReplayConfig, RunConfig, TableSpec, VRacerConfig
from configs.algorithms import AlgorithmConfig
from replay_server.contract.layout import run_codec

_SCALAR = specs.Array((), np.float32)
SPEC = specs.EnvironmentSpec(
  specs.Array((3,), np.float32), specs.BoundedArray((2,), np.float32, -1.0, 1.0, "action"), _SCALAR, _SCALAR
)


def make_v_racer_run(
  algorithm: AlgorithmConfig | None = None, network: dict[str, Any] | None = None, **learner: Any
) -> RunConfig:
  """A run of V-RACER, or of another algorithm, on whole episodes."""
  fields = {"learning_rate": 0.01, "discount": 0.9, "updates_per_block": 1, "prefetch": False, **learner}
  return RunConfig(
    replay=ReplayConfig(
      capacity=200, default=TableSpec("default", 1.0, min_size=10), sampling="memory", unit="episodes"
    ),
    network=NetworkConfig(**{"hidden_sizes": (4,), "activation": "softsign", **(network or {})}),
    actor=ActorConfig(random_steps=0),
    learner=LearnerConfig(algorithm=algorithm or VRacerConfig(), **fields),
  )


def random_rows(config: RunConfig, rng: np.random.Generator, batch: int = 5, spread: float = 1.0) -> np.ndarray:
  """Rows whose actions were drawn from their behaviours, float32 [batch, width]."""
  codec = run_codec(config, SPEC)
  packer = codec.packer()
  mean, deviation = spread * rng.normal(size=(batch, 2)), rng.uniform(0.3, 0.6, size=(batch, 2))
  actions = mean + deviation * np.clip(rng.normal(size=(batch, 2)), -2.9, 2.9)
  columns: dict[str, np.ndarray] = {
    "observation": rng.normal(size=(batch, 3)).astype(np.float32),
    "next_observation": rng.normal(size=(batch, 3)).astype(np.float32),
    "action": actions.astype(np.float32),
    "reward": rng.normal(size=batch).astype(np.float32),
    "discount": rng.choice([0.0, 1.0], size=batch).astype(np.float32),
    "behaviour": np.concatenate([mean, deviation], axis=1).astype(np.float32),
  }
  blank = {field.name: np.zeros(field.shape, field.dtype) for field in codec.fields}
  return np.stack(
    [packer.pack({**blank, **{name: column[row] for name, column in columns.items()}}) for row in range(batch)]
  )

"""`behaviour` in rows: from a policy's Gaussian, or its noise, through a worker into the tables of a real server."""

import dataclasses
import itertools
import pathlib
import threading

import numpy as np
import pytest

from actors.worker import RolloutWorker
from configs import (
  ActorConfig,
  DdpgConfig,
  DdqnConfig,
  EnvironmentConfig,
  LearnerConfig,
  NafConfig,
  NetworkConfig,
  QrSacConfig,
  ReplayConfig,
  RunConfig,
  SacConfig,
  Td3Config,
  UserError,
  VRacerConfig,
)
from configs.algorithms import AlgorithmConfig
from configs.mixup import MixupConfig
from configs.refer import ReferConfig
from environments import make_environment_spec, make_event_environment
from networks import assign_weights, flatten_weights, make_policy
from replay_server.contract.layout import make_row_codec, run_codec
from replay_server.contract.policy import PolicyPublisher, PolicySnapshot
from tests.serving import make_config, serving

_WATCHED = ReferConfig(rules="watched")
EPISODE = 15
ENVIRONMENTS = 3
Row = dict[str, np.ndarray]


def _run(algorithm: AlgorithmConfig, refer: ReferConfig = _WATCHED) -> RunConfig:
  """Three pendulums whose episodes end after 15 steps."""
  return RunConfig(
    replay=dataclasses.replace(make_config(capacity=5_000).replay, sampling="memory", unit="episodes"),
    environment=EnvironmentConfig("Pendulum-v1", {"max_episode_steps": EPISODE}),
    network=NetworkConfig((8,)),
    actor=ActorConfig(random_steps=0, environments=ENVIRONMENTS),
    learner=LearnerConfig(algorithm=algorithm, refer=refer),
  )


def _collect(config: RunConfig, folder: pathlib.Path, steps: int) -> tuple[list[list[Row]], np.ndarray, list[str]]:
  """What a worker writes: rows by episode, the weights that it acted by, and the fields of its rows."""
  environment = make_event_environment(config)
  spec = make_environment_spec(environment)
  environment.close()
  weights = 3 * flatten_weights(make_policy(config, spec, seed=2))  # Actions near the bounds too.
  stop = threading.Event()
  with serving(config, folder, spec, inline=True) as server:
    PolicyPublisher(server.connection).publish(PolicySnapshot(1, 1, weights))
    worker = RolloutWorker(server.connection, server.manifest, "actor_0", index=0, seed=1, stop=stop)
    for _ in range(steps):
      worker.step()
    worker.flush()
    worker.close()
    assert server.connection.local_rows is not None
    rows = [server.manifest.codec.unpack(row) for row in server.connection.local_rows.take(steps * ENVIRONMENTS)]
  assert len(rows) == steps * ENVIRONMENTS
  rows.sort(key=lambda row: (int(row["episode"]), int(row["step"])))
  episodes = [list(group) for _, group in itertools.groupby(rows, key=lambda row: int(row["episode"]))]
  return episodes, weights, [field.name for field in server.manifest.codec.fields]


def _means(config: RunConfig, weights: np.ndarray, rows: list[Row]) -> np.ndarray:
  """The policy's means, which `explore` surrounds with noise; TD3's and DDPG's lie within the bounds."""
  spec = make_environment_spec(make_event_environment(config))
  network = make_policy(config, spec)
  assign_weights(network, weights)
  outputs = network(network.features(np.stack([row["observation"] for row in rows])))
  means: np.ndarray = (outputs[1] if isinstance(outputs, tuple) else outputs).numpy()
  return means


@pytest.mark.parametrize(
  "algorithm",
  [
    Td3Config(action_noise=0.3),
    DdpgConfig(),
    NafConfig(action_noise=0.4),
    VRacerConfig(),
  ],
  ids=lambda algorithm: algorithm.NAME,
)
def test_rows_hold_the_gaussian_of_their_state_and_the_action_as_it_was_drawn(
  algorithm: AlgorithmConfig, tmp_path: pathlib.Path
) -> None:
  config = _run(algorithm)
  episodes, weights, _ = _collect(config, tmp_path, 60)
  rows = [row for episode in episodes for row in episode]
  means = _means(config, weights, rows)
  behaviours = np.stack([row["behaviour"] for row in rows])
  assert behaviours.shape == (len(rows), 2)
  np.testing.assert_allclose(behaviours[:, :1], means, rtol=1e-4, atol=1e-5)
  deviation = getattr(algorithm, "action_noise", None)
  if deviation is None:
    deviation = np.log1p(np.exp(weights[0]))  # The shared vector comes first.
  np.testing.assert_allclose(behaviours[:, 1], deviation, rtol=1e-5)
  actions = np.stack([row["action"] for row in rows])
  standard = (actions - means) / deviation
  assert np.abs(standard).max() <= 3.001
  assert standard.std() == pytest.approx(0.987, rel=0.15)
  assert np.abs(actions).max() > 1


@pytest.mark.parametrize("kind", [DdpgConfig, NafConfig])
def test_each_environments_noise_goes_on_by_itself_through_an_episode_and_begins_anew_with_the_next(
  kind: type[DdpgConfig] | type[NafConfig], tmp_path: pathlib.Path
) -> None:
  config = _run(kind(noise="ornstein_uhlenbeck", action_noise=0.3))
  episodes, weights, _ = _collect(config, tmp_path, 4 * EPISODE)
  assert [len(episode) for episode in episodes] == [EPISODE] * 4 * ENVIRONMENTS
  innovations = []
  for rows in episodes:
    means = _means(config, weights, rows)
    noise = np.stack([row["action"] for row in rows]) - means
    before = np.concatenate([np.zeros((1, 1)), noise[:-1]])
    behaviours = np.stack([row["behaviour"] for row in rows])
    np.testing.assert_allclose(behaviours[:, :1], means + 0.85 * before, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(behaviours[:, 1], np.full(EPISODE, np.float32(0.3)))
    innovations.append((noise - 0.85 * before)[:, 0] / 0.3)
  assert np.abs(innovations).max() <= 3.001
  # Of two environments at the same time, they have nothing in common.
  correlations = np.corrcoef(np.array(innovations)) - np.eye(len(innovations))
  assert np.abs(correlations).max() < 0.9
  assert np.std(innovations) == pytest.approx(0.987, rel=0.2)


@pytest.mark.parametrize("noise", ["gaussian", "ornstein_uhlenbeck"])
def test_without_a_stored_behaviour_rows_are_those_of_a_transition_and_actions_within_the_bounds(
  noise: str, tmp_path: pathlib.Path
) -> None:
  config = _run(DdpgConfig(noise=noise, action_noise=0.5), ReferConfig())  # type: ignore[arg-type]  # One of the two.
  episodes, _, fields = _collect(config, tmp_path, 2 * EPISODE)
  actions = np.stack([row["action"] for episode in episodes for row in episode])
  assert np.abs(actions).max() == 1
  spec = make_environment_spec(make_event_environment(config))
  assert run_codec(config, spec) == make_row_codec(spec)
  assert "behaviour" not in fields


def test_a_field_of_mean_and_deviation_of_every_component_is_added() -> None:
  assert LearnerConfig(algorithm=DdpgConfig()).row_fields((4,)) == {}
  watched = LearnerConfig(algorithm=DdpgConfig(), refer=_WATCHED)
  assert watched.row_fields((4,)) == {"behaviour": ("float32", (8,))}


@pytest.mark.parametrize("algorithm", [SacConfig(), QrSacConfig(), DdqnConfig()], ids=lambda each: each.NAME)
def test_algorithms_that_draw_from_no_gaussian_are_refused(algorithm: AlgorithmConfig) -> None:
  sentence = (
    "learner.refer.rules is 'watched', which needs the Gaussian that each action was drawn from, and "
    rf"'{algorithm.NAME}' draws from none: use one of td3, ddpg, naf, v_racer\.$"
  )
  with pytest.raises(UserError, match=sentence):
    LearnerConfig(algorithm=algorithm, refer=_WATCHED)


def test_random_steps_are_refused_where_rows_hold_the_behaviour() -> None:
  learner = LearnerConfig(algorithm=Td3Config(), refer=_WATCHED)
  with pytest.raises(UserError, match=r"actor\.random_steps is 1000: random actions come from none, so set it to 0\.$"):
    RunConfig(learner=learner, replay=ReplayConfig(sampling="memory"))


def test_a_noise_of_0_has_no_density() -> None:
  with pytest.raises(UserError, match=r"and learner\.algorithm\.action_noise is 0: raise it\.$"):
    LearnerConfig(algorithm=NafConfig(action_noise=0.0), refer=_WATCHED)


@pytest.mark.parametrize("kind", ["neighbors", "s4rl"])
def test_mixed_rows_have_no_behaviour(kind: str) -> None:
  mixup = MixupConfig(kind)  # type: ignore[arg-type]  # One of them.
  with pytest.raises(UserError, match=r"and a mixed row has none: set learner\.mixup\.kind to 'none'\.$"):
    LearnerConfig(algorithm=DdpgConfig(), mixup=mixup, refer=_WATCHED)

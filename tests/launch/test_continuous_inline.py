"""Continuous control, one process: every algorithm trains, goes on after a stop, and is evaluated and exported."""

import numpy as np
import pytest
import tensorflow as tf

import slipstream
from configs import load_config, override
from environments import make_environment_spec, make_event_environment
from launch.stored_policy import export_policy
from networks import make_acting_policy
from replay_server.contract.policy import load_snapshot

pytestmark = pytest.mark.usefixtures("undrawn")

SHORT = {
  "environment_steps": "400",
  "replay.default.min_size": "200",
  "actor.random_steps": "200",
  "learner.updates_per_block": "8",
  "learner.batch_size": "16",
  "evaluator.period_updates": "100",
  "evaluator.episodes": "1",
  "evaluator.solved_evaluations": "0",
}
# Everything that an algorithm combines with.
COMBINED = {
  "replay.default.selector": "prioritized",
  "replay.tables.land_near_middle.selector": "prioritized",
  "replay.capacity": "5000",
  "learner.n_step": "3",
  "learner.bias_correction": "balance",
  "learner.cagrad.coefficient": "0.4",
  "learner.max_gradient_norm": "10",
  "learner.algorithm.policy_l2": "0.001",
  "network.normalize_observations": "true",
  "learner.algorithm.policy_dropout": "0.1",
  "actor.environments": "3",
}
# Noise that each of several environments remembers, and PER.
DDPG = {
  "learner.algorithm": "ddpg",
  "learner.algorithm.critic_l2": "0.0001",
  "learner.algorithm.noise": "ornstein_uhlenbeck",
  "network.activation": "softsign",
  "network.initializer": "glorot",
  "replay.default.selector": "prioritized",
  "actor.environments": "3",
}


@pytest.mark.parametrize(
  ("preset", "changes"),
  [
    ("pendulum_sac", {}),
    ("pendulum_td3", {"network.normalize_observations": "true"}),
    ("pendulum_td3", DDPG),
    ("lunar_lander_qr_sac", COMBINED),
  ],
)
def test_a_run_trains_goes_on_and_its_policy_can_be_exported(preset, changes, tmp_path):
  config = override(load_config(preset), {**SHORT, **changes})
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert 400 <= outcome.status.environment_steps < 400 + config.actor.environments
  # An update a step after the minimum of 200, in blocks of eight; rows of open n-step windows are not counted yet.
  assert abs(outcome.status.gradient_steps - 200) <= 8
  assert len(outcome.status.evaluations) == 2
  assert all(np.isfinite(value) for value in outcome.status.learner.values())
  assert ("temperature" in outcome.status.learner) == ("sac" in preset)

  resumed = slipstream.train(
    override(config, {"environment_steps": "440"}), resume=str(outcome.run_dir), inline=True, quiet=True
  )
  assert abs(resumed.status.gradient_steps - 240) <= 8

  stored = load_snapshot(outcome.run_dir / "checkpoints" / "policy" / "latest.npz")
  export_policy(stored, tmp_path / "model")
  model = tf.saved_model.load(str(tmp_path / "model"))
  environment = make_event_environment(stored.config, seed=0)
  timestep = environment.reset()
  observations = [timestep.observation]
  while not timestep.last() and len(observations) < 20:
    timestep = environment.step(np.zeros(environment.action_spec().shape, np.float32))
    observations.append(timestep.observation)
  environment.close()
  batch = np.stack(observations)
  acting = make_acting_policy(stored.config, make_environment_spec(environment), stored.snapshot.weights)
  (actions,) = model.signatures["serving_default"](tf.constant(batch)).values()
  np.testing.assert_allclose(acting.best(batch), actions, rtol=1e-3, atol=1e-4)


def test_a_replay_ratio_above_one_takes_several_updates_a_step(tmp_path):
  config = override(
    load_config("pendulum_td3"),
    {
      **SHORT,
      "environment_steps": "240",
      "replay.environment_steps_per_update": "0.25",
      "learner.algorithm.target_period": "1",
    },
  )
  outcome = slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)
  assert outcome.status.environment_steps == 240
  # Four updates for each of the 40 steps after the first 200, in blocks of eight.
  assert outcome.status.gradient_steps == 160
  assert [evaluation.gradient_steps for evaluation in outcome.status.evaluations] == [104]


def test_an_algorithm_that_cannot_act_in_the_world_is_refused(tmp_path):
  config = override(load_config("cartpole"), {"learner.algorithm": "sac"})
  with pytest.raises(slipstream.UserError, match="has 2 discrete actions, but sac chooses continuous ones"):
    slipstream.train(config, run_root=tmp_path, inline=True, quiet=True)

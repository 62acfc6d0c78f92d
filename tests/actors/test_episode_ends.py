"""The last rows of episodes of real environments: from the environment through the adder to a server."""

import pathlib
from typing import Any

import numpy as np
import pytest

from configs import EnvironmentConfig
from environments import make_environment_spec, make_event_environment
from replay_server.contract.layout import make_row_codec
from tests.serving import adding, drain, make_config, serving


@pytest.mark.parametrize(
  ("name", "arguments", "terminated"),
  [
    ("Pendulum-v1", {"max_episode_steps": 15}, False),
    ("Hopper-v5", {"max_episode_steps": 5}, False),
    ("Hopper-v5", {}, True),
    ("CartPole-v1", {}, True),
  ],
  ids=["pendulum truncated", "hopper truncated", "hopper terminated", "cart-pole terminated"],
)
def test_a_truncated_last_row_keeps_its_discount_and_a_terminated_one_does_not(
  tmp_path: pathlib.Path, name: str, arguments: dict[str, Any], terminated: bool
) -> None:
  config = make_config(environment=EnvironmentConfig(name, arguments))
  environment = make_event_environment(config, seed=1)
  spec = make_environment_spec(environment)
  codec, rng = make_row_codec(spec), np.random.default_rng(1)
  timesteps, actions = [environment.reset()], []
  with serving(config, tmp_path, spec, inline=True) as server:
    with adding(server) as (adder, _):
      adder.add_first(timesteps[0])
      while not timesteps[-1].last():
        low, high = spec.actions.minimum, spec.actions.maximum
        discrete = np.issubdtype(spec.actions.dtype, np.integer)
        drawn = rng.integers(low, high, endpoint=True) if discrete else rng.uniform(low, high, spec.actions.shape)
        actions.append(np.asarray(drawn, spec.actions.dtype))
        timesteps.append(environment.step(actions[-1]))
        adder.add(actions[-1], timesteps[-1], {"policy_version": 0})
    rows = drain(server.connection, "default", codec)
  environment.close()
  *others, last = rows
  assert (float(last["discount"]), bool(last["terminated"]), bool(last["truncated"])) == (
    0.0 if terminated else 1.0,
    terminated,
    not terminated,
  )
  assert {(float(row["discount"]), bool(row["terminated"]), bool(row["truncated"])) for row in others} == {
    (1.0, False, False)
  }
  # Rows store the canonical action, and the last row's next observation is the state in which the episode ended.
  np.testing.assert_array_equal([row["action"] for row in rows], actions)
  np.testing.assert_array_equal([row["observation"] for row in rows], [t.observation for t in timesteps[:-1]])
  np.testing.assert_array_equal([row["next_observation"] for row in rows], [t.observation for t in timesteps[1:]])

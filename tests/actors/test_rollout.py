"""The extras of a policy reach the rows: rollouts of real environments into a real server."""

import pathlib

import numpy as np
import pytest

from actors.behaviour import Behaviour
from actors.engine import choose_actions
from actors.rollout import Rollout, Stage
from environments import make_event_worlds
from networks import Extras
from tests.actors.running import SPEC, TIME_LIMIT, make_run
from tests.serving import adding, drain, serving, with_behaviour


class _Policy:
  """Chooses the action by the heading, and gives the observed position as its extra."""

  def best(self, observations: np.ndarray) -> np.ndarray:
    return (observations[:, 2] > 0).astype(np.int32)

  def explore(self, observations: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Extras]:
    return self.best(observations), {"behaviour": observations[:, :2].astype(np.float32)}


def test_the_rows_hold_the_extras_of_their_own_actions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  config, policy = with_behaviour(make_run(), monkeypatch), _Policy()
  with serving(config, tmp_path, SPEC, inline=True) as server:
    with adding(server, writer_id=1) as (first, _), adding(server, writer_id=2) as (second, _):
      behaviours = [Behaviour(SPEC.actions, np.random.default_rng(seed), policy, version=7) for seed in range(2)]
      rollouts = [Rollout("actor_0", *parts) for parts in zip(behaviours, (first, second), strict=True)]
      stages = [Stage(*parts) for parts in zip(make_event_worlds(config, [0, 1]), [[r] for r in rollouts], strict=True)]
      for stage in stages:
        assert stage.ended() == list(stage.rollouts)
        stage.begin()
        assert stage.is_ready
      for t in range(TIME_LIMIT):
        choices = choose_actions(behaviours, [rollout.observation for rollout in rollouts])
        summaries = [
          summary for stage, choice in zip(stages, choices, strict=True) for summary in stage.step([choice]) or []
        ]
        assert [rollout.ended for rollout in rollouts] == [t == TIME_LIMIT - 1] * 2
    rows = drain(server.connection, "default", server.manifest.codec)
  assert [(summary.actor, summary.length, summary.policy_version) for summary in summaries if summary] == [
    ("actor_0", TIME_LIMIT, 7)
  ] * 2
  assert len(rows) == 2 * TIME_LIMIT
  for row in rows:
    np.testing.assert_array_equal(row["behaviour"], row["observation"][:2])
    assert int(row["policy_version"]) == 7

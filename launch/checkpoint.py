"""`slipstream evaluate --checkpoint`: plays, records and exports a stored policy."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from actors.evaluator import make_evaluated_policy, play_episode
from configs import RunConfig, UserError
from configs.seeding import derive_seed
from environments import make_event_environment
from launch import report
from launch.finish import find_policy, record_episode
from launch.roles import environment_spec
from launch.run_directory import RunDirectory
from networks import QNetwork, assign_weights, make_policy
from replay_server.contract.policy import PolicySnapshot, StoredPolicy, load_snapshot


def evaluate_checkpoint(checkpoint: str, episodes: int, video: bool, export: str) -> int:
  """Plays a stored policy greedily and prints what came of it; returns the exit code.

  An export alone, without episodes and video, needs no environment.

  Args:
    checkpoint: a run directory (its best policy), or a policy file.
    episodes: to play; with 0 there is nothing to sum up.
    video: save one more episode beside the policy's run, as a .gif.
    export: a folder for the policy as a SavedModel; empty for none.

  Raises:
    UserError: there is no policy or nothing to do, or the environment cannot be made or rendered.
  """
  if not (episodes or video or export):
    raise UserError("There is nothing to do with the policy: give --episodes, --video or --export.")
  path = policy_path(pathlib.Path(checkpoint))
  stored = load_snapshot(path)
  snapshot, config = stored.snapshot, stored.config
  print(f"Policy {snapshot.version} ({snapshot.learner_steps} gradient steps) of {config.name}, from {path}.")
  returns, lengths = _play(config, snapshot, episodes) if episodes else ([], [])
  if video:
    print(f"Video: {_save_video(config, snapshot, path)}")
  if export:
    export_policy(stored, pathlib.Path(export))
    print(f"SavedModel: {export}")
  if not episodes:
    return 0
  result = {
    "episodes": episodes,
    "mean_return": float(np.mean(returns)),
    "std_return": float(np.std(returns)),
    "mean_length": float(np.mean(lengths)),
  }
  print(f"RESULT {json.dumps(result)}", flush=True)
  return 0


def policy_path(path: pathlib.Path) -> pathlib.Path:
  """The policy file of a run directory, its best one, or such a file itself.

  Raises:
    UserError: the run directory holds none.
  """
  if path.suffix == ".npz":
    return path
  found = find_policy(RunDirectory(path))
  if found is None:
    raise UserError(
      f"{path} holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file."
    )
  return found


def _play(config: RunConfig, snapshot: PolicySnapshot, episodes: int) -> tuple[list[float], list[int]]:
  seed = derive_seed(config.seed, "evaluator")
  environment = make_event_environment(config, seed=seed)
  try:
    policy = make_evaluated_policy(config, environment, snapshot, np.random.default_rng(seed))
    played = [play_episode(environment, policy) for _ in range(episodes)]
  finally:
    environment.close()
  for number, episode in enumerate(played):
    fired = [event.name for bit, event in enumerate(config.events) if episode.events >> bit & 1]
    print(
      f"  episode {number}: return {episode.episode_return:g}, {episode.length} steps, events: {', '.join(fired) or 'none'}"
    )
  return [episode.episode_return for episode in played], [episode.length for episode in played]


def _save_video(config: RunConfig, snapshot: PolicySnapshot, policy: pathlib.Path) -> pathlib.Path:
  episode = record_episode(config, snapshot)
  run = policy.parents[2] if len(policy.parents) > 2 and policy.parent.name == "policy" else policy.parent
  path = run / "videos" / f"policy_{snapshot.version}.gif"
  path.parent.mkdir(exist_ok=True)
  return report.greedy_path_gif(episode.frames, path)


def export_policy(stored: StoredPolicy, folder: pathlib.Path) -> None:
  """Writes the policy as a SavedModel.

  Its default signature is `act(observations [B, ...])`, the actions without noise: int32 [B], or float32 [B, A] in [-1, 1] for
  continuous ones, which stand for the environment's bounds. Double DQN's has `action_values`, float32 [B, A], too.

  Raises:
    UserError: the folder cannot be written, or the policy's file tells no spec and the environment cannot be made.
  """
  spec = stored.spec or environment_spec(stored.config)
  network = make_policy(stored.config, spec)
  assign_weights(network, stored.snapshot.weights)
  signature = [tf.TensorSpec([None, *spec.observations.shape], spec.observations.dtype, "observations")]
  module = tf.Module()
  module.network = network
  module.act = tf.function(lambda observations: {"actions": network.best_actions(observations)}, signature)
  signatures = {"serving_default": module.act}
  if isinstance(network, QNetwork):
    module.action_values = tf.function(lambda observations: {"values": network.values(observations)}, signature)
    signatures["action_values"] = module.action_values
  try:
    tf.saved_model.save(module, str(folder), signatures=signatures)
  except OSError as error:
    raise UserError(f"The SavedModel cannot be written to {folder} ({error}): choose another folder.") from None

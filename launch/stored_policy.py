"""Finds, plays, records and exports stored policies."""

import pathlib
import shutil
import tempfile

import tensorflow as tf

from actors.evaluator import PlayedEpisode, make_evaluated_behaviour, make_greedy_behaviour, play_episode, split_seed
from configs import RunConfig, UserError
from configs.seeding import derive_seed
from environments import make_event_environment
from launch import report
from launch.roles import environment_spec
from launch.run_directory import RunDirectory
from launch.videos import require_picture
from networks import QNetwork, assign_weights, make_policy
from replay_server.contract.policy import PolicySnapshot, StoredPolicy


def find_policy(run: RunDirectory) -> pathlib.Path | None:
  """The run's best evaluated policy, or else its latest; None if it has neither."""
  candidates = [run.checkpoints / "policy" / name for name in ("best.npz", "latest.npz")]
  return next((path for path in candidates if path.is_file()), None)


def policy_path(path: pathlib.Path) -> pathlib.Path:
  """The policy file that `path` names: `path` itself, or the best policy of a run directory.

  Raises:
    UserError: the run directory holds no policy.
  """
  if path.suffix == ".npz":
    return path
  found = find_policy(RunDirectory(path))
  if found is None:
    raise UserError(
      f"{path} holds no policy (checkpoints/policy/best.npz or latest.npz): name a run directory or such a file."
    )
  return found


def play_policy(config: RunConfig, snapshot: PolicySnapshot, episodes: int) -> list[PlayedEpisode]:
  """Plays episodes as an evaluation does: greedily, except for the share of random actions in `evaluator.epsilon`.

  Raises:
    UserError: the environment cannot be made.
  """
  seed, rng = split_seed(derive_seed(config.seed, "evaluator"))
  environment = make_event_environment(config.of_evaluator, seed=seed)
  try:
    behaviour = make_evaluated_behaviour(config, environment, snapshot, rng)
    return [play_episode(environment, behaviour) for _ in range(episodes)]
  finally:
    environment.close()


def record_episode(config: RunConfig, snapshot: PolicySnapshot) -> PlayedEpisode:
  """Plays and renders one greedy episode.

  Raises:
    UserError: the environment cannot be rendered.
  """
  seed, _ = split_seed(derive_seed(config.seed, "evaluator"))
  environment = make_event_environment(config.of_evaluator, seed=seed, render=True)
  try:
    behaviour = make_greedy_behaviour(config, environment, snapshot)
    return play_episode(environment, behaviour, record=lambda frame: require_picture(config, frame))
  finally:
    environment.close()


def save_video(config: RunConfig, snapshot: PolicySnapshot, policy: pathlib.Path) -> pathlib.Path:
  """Saves one greedy episode as an animation, in `videos/` of the run directory with the file `policy`, or else beside it.

  Raises:
    UserError: the environment cannot be rendered, or the file cannot be written.
  """
  run = policy.parents[2] if len(policy.parents) > 2 and policy.parent.name == "policy" else policy.parent
  path = run / "videos" / f"policy_{snapshot.version}.gif"
  try:
    path.parent.mkdir(exist_ok=True)
    return report.greedy_path_gif(record_episode(config, snapshot).frames, path)
  except OSError as error:
    raise UserError(
      f"The video cannot be written to {path} ({error.strerror}): make room, or copy the policy file to a folder that you may "
      "write."
    ) from None


def check_export(folder: pathlib.Path) -> None:
  """Makes the folder of an export, which must be new or empty: nothing is written over.

  Raises:
    UserError: it is a file, holds something, or cannot be written.
  """
  if folder.exists() and not folder.is_dir():
    raise UserError(f"--export names {folder}, which is a file: name a new folder.")
  try:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
      raise UserError(f"--export names {folder}, which holds other files: name a new folder, or empty this one.")
    with tempfile.TemporaryFile(dir=folder):
      pass
  except OSError as error:
    raise _unwritable(folder, str(error.strerror)) from None


def _unwritable(folder: pathlib.Path, reason: str) -> UserError:
  return UserError(f"The SavedModel cannot be written to {folder} ({reason}): choose another folder with --export.")


def export_policy(stored: StoredPolicy, folder: pathlib.Path) -> None:
  """Writes the policy as a SavedModel to a folder that is new or empty.

  Its default signature takes observations [B, ...] and returns actions without noise: int32 [B], or float32 [B, A], where -1
  and 1 stand for the environment's bounds. Double DQN's model also has the signature `action_values`, float32 [B, A].

  Raises:
    UserError: the folder holds something or cannot be written, or the policy's file holds no spec and the environment cannot be
      made.
  """
  check_export(folder)
  spec = stored.spec or environment_spec(stored.config)
  network = make_policy(stored.config, spec)
  assign_weights(network, stored.snapshot.weights)
  signature = [tf.TensorSpec([None, *spec.observations.shape], spec.observations.dtype, "observations")]
  module = tf.Module()
  module.network = network
  module.act = tf.function(
    lambda observations: {"actions": network.best_actions(observations)}, signature, autograph=False
  )
  signatures = {"serving_default": module.act}
  if isinstance(network, QNetwork):
    module.action_values = tf.function(
      lambda observations: {"values": network.values(observations)}, signature, autograph=False
    )
    signatures["action_values"] = module.action_values
  try:
    tf.saved_model.save(module, str(folder), signatures=signatures)
  except (OSError, tf.errors.OpError) as error:
    shutil.rmtree(folder, ignore_errors=True)  # It was empty, and half a model is of no use.
    raise _unwritable(folder, str(error).splitlines()[0]) from None

"""The code of ReaPER's authors on CartPole, for an interpreter that has Stable-Baselines3 and finds that code.

`python reaper_authors.py SEED ...` trains with the settings of the paper's Table 2 and one environment. For each seed it prints
the environment steps to the first evaluation of five episodes that reached 475, or the budget, and whether one did. It imports
nothing of this project. docs/benchmarks.md says how to make such an environment.
"""

import contextlib
import importlib
import io
import sys

_BUDGET = 50_000
_THRESHOLD = 475


def main() -> None:
  """Trains once for each seed on the command line."""
  for seed in map(int, sys.argv[1:]):
    steps, is_solved = train(seed)
    print(f"seed {seed}: {steps:,} environment steps, {'solved' if is_solved else 'not solved'}", flush=True)


def train(seed: int) -> tuple[int, bool]:
  """Environment steps to the threshold, or the budget; whether it was reached."""
  policies = importlib.import_module("custom_policies.custom_ddqn")
  buffers = importlib.import_module("custom_buffers.reaper")
  callbacks = importlib.import_module("stable_baselines3.common.callbacks")
  environments = importlib.import_module("stable_baselines3.common.env_util")
  with contextlib.redirect_stdout(io.StringIO()):  # The buffer prints its exponents.
    model = policies.CustomDDQN(
      env=environments.make_vec_env("CartPole-v1", seed=seed),
      seed=seed,
      policy="MlpPolicy",
      policy_kwargs={"net_arch": [256, 256]},
      replay_buffer_class=buffers.ReaPER,
      replay_buffer_kwargs={"alpha": 0.4, "omega": 0.2},
      learning_rate=2.3e-3,
      learning_starts=1_000,
      batch_size=64,
      buffer_size=100_000,
      target_update_interval=10,
      train_freq=256,
      gradient_steps=128,
      exploration_fraction=0.16,
      exploration_final_eps=0.04,
      device="cpu",
    )
    stop = callbacks.StopTrainingOnRewardThreshold(reward_threshold=_THRESHOLD, verbose=0)
    evaluation = callbacks.EvalCallback(
      environments.make_vec_env("CartPole-v1", seed=seed),
      callback_on_new_best=stop,
      eval_freq=500,
      n_eval_episodes=5,
      verbose=0,
    )
    model.learn(total_timesteps=_BUDGET, callback=evaluation)
  return int(evaluation.num_timesteps), bool(evaluation.best_mean_reward >= _THRESHOLD)


if __name__ == "__main__":
  main()

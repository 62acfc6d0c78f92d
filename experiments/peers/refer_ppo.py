"""PPO with the settings of ReF-ER's paper (Appendix A), for an interpreter that has Stable-Baselines3.

`python refer_ppo.py WORLD STEPS SEED ...` trains for so many environment steps with each seed, and prints a CSV in the form of
an experiment's: the mean return of the training episodes that ended in each twentieth of the steps. It imports nothing of this
project. docs/experiments.md says how to make such an environment.
"""

import csv
import importlib
import sys
from typing import Any

_POINTS = 20
# The policy's and the critic's learning rates, and A of their annealing (Eq. 13).
_RATES = (1e-4, 3e-4)
_ANNEALING = 5e-7
_GAMMA = 0.995
_COLUMNS = ("method", "seed", "config", "environment_steps", "gradient_steps", "train_return")
# There is no job whose digest could stand in the column `config`.
_DIGEST = "0"


def main() -> None:
  """Trains once for each seed on the command line."""
  world, steps, *seeds = sys.argv[1:]
  writer = csv.writer(sys.stdout, lineterminator="\n")
  writer.writerow(_COLUMNS)
  for seed in map(int, seeds):
    for point in train(f"{world}-v5", int(steps), seed):
      writer.writerow(("ppo", seed, _DIGEST, *point))
    sys.stdout.flush()


def train(world: str, steps: int, seed: int) -> list[tuple[int, int, float | str]]:
  """(environment steps, gradient steps, mean return of the training episodes since the point before, empty without any)."""
  ppo = importlib.import_module("stable_baselines3")
  environments = importlib.import_module("stable_baselines3.common.env_util")
  vector = importlib.import_module("stable_baselines3.common.vec_env")
  torch = importlib.import_module("torch")
  torch.set_num_threads(1)

  class Annealed(ppo.PPO):  # type: ignore[name-defined]
    """PPO whose two networks have learning rates of their own."""

    def _setup_model(self) -> None:
      super()._setup_model()
      of_critic: list[Any] = []
      of_policy: list[Any] = []
      for name, parameter in self.policy.named_parameters():
        (of_critic if "value_net" in name else of_policy).append(parameter)
      groups = [{"params": of_policy}, {"params": of_critic}]
      self.policy.optimizer = torch.optim.Adam(groups, lr=_RATES[0], eps=1e-5)

    def _update_learning_rate(self, optimizers: Any) -> None:
      del optimizers
      for group, rate in zip(self.policy.optimizer.param_groups, _RATES, strict=True):
        group["lr"] = rate / (1 + _ANNEALING * self.num_timesteps)

  # Observations and rewards are scaled, as those of the paper's other algorithms are (Appendix B).
  plain = environments.make_vec_env(world, seed=seed)
  model = Annealed(
    "MlpPolicy",
    vector.VecNormalize(plain, gamma=_GAMMA),
    seed=seed,
    gamma=_GAMMA,
    gae_lambda=0.97,
    clip_range=0.2,
    n_steps=2_048,
    n_epochs=10,
    batch_size=64,
    policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    device="cpu",
  )
  model.learn(steps)
  lengths, returns = plain.env_method("get_episode_lengths")[0], plain.env_method("get_episode_rewards")[0]
  return _points(lengths, returns, steps)


def _points(lengths: list[int], returns: list[float], steps: int) -> list[tuple[int, int, float | str]]:
  points: list[tuple[int, int, float | str]] = []
  ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
  for point in range(1, _POINTS + 1):
    low, high = steps * (point - 1) // _POINTS, steps * point // _POINTS
    own = [value for end, value in zip(ends, returns, strict=True) if low < end <= high]
    # Ten passes over 2,048 steps in batches of 64.
    points.append((high, high // 2_048 * 320, sum(own) / len(own) if own else ""))
  return points


if __name__ == "__main__":
  main()

"""The presets by name: each a module with functions that return a `RunConfig`."""

from collections.abc import Callable

from configs.presets import (
  classic_control,
  lunar_lander,
  mujoco,
  nmer,
  obstacle_course,
  racing,
  randomised_skills,
  reaper,
  refer,
  three_rooms,
  two_rooms,
)
from configs.run import RunConfig

PRESETS: dict[str, Callable[[], RunConfig]] = {
  "three_rooms": three_rooms.get_config,
  "two_rooms": two_rooms.get_config,
  "obstacle_course": obstacle_course.get_config,
  "randomised_skills": randomised_skills.get_config,
  "pendulum_sac": classic_control.get_pendulum_config,
  "pendulum_qr_sac": classic_control.get_pendulum_qr_sac_config,
  "pendulum_td3": classic_control.get_pendulum_td3_config,
  "cartpole": classic_control.get_cartpole_config,
  "acrobot": classic_control.get_acrobot_config,
  "lunar_lander": lunar_lander.get_discrete_config,
  "lunar_lander_continuous": lunar_lander.get_config,
  "lunar_lander_qr_sac": lunar_lander.get_qr_sac_config,
  **{world.lower(): mujoco.preset(world) for world in mujoco.EVENTS},
  "halfcheetah_large": mujoco.get_large_config,
  "slingshot": racing.get_slingshot_config,
  "slingshot_paper": racing.get_slingshot_paper_config,
  "time_trial": racing.get_time_trial_config,
  "time_trial_paper": racing.get_time_trial_paper_config,
  **{f"reaper_{world}": reaper.preset(world) for world in reaper.WORLDS},
  **{
    nmer.name_of(algorithm, world, buffer): nmer.preset(algorithm, world, buffer)
    for algorithm, worlds in nmer.TUNED.items()
    for world, buffers in worlds.items()
    for buffer in buffers
  },
  **{
    refer.name_of(algorithm, world): refer.preset(algorithm, world)
    for algorithm in refer.ALGORITHMS
    for world in refer.WORLDS
  },
}

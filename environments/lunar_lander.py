"""The SSET paper's events of gymnasium's lunar lander (Section 6 and Table 2), with discrete or continuous engines.

The place of the flags follows from gymnasium's source (`envs/box2d/lunar_lander.py`, 1.4.0). Its world is 20 units wide, the
flags stand at `helipad_x1` = 8 and `helipad_x2` = 12, and the lander's x is observed as (x - 10) / 10: the flags are at -0.2
and 0.2, their middle at 0. Its y is observed as (y - helipad_y - 0.6) / 6.67, which is within 0.003 of 0 for a lander that
stands between them: the middle of the flags is the point (0, 0).

An observation, float32 [8], is x, y, their velocities, the angle, its velocity, and for each leg 1 while it touches the ground,
else 0. The ground's pieces meet under the flags and half-way between them. A leg that stands there can count as off the
ground, since gymnasium ends its contact when it leaves one of the two pieces.

Both conditions are about states, as in the paper, so they keep firing while the lander stands there. Wrap them in
`environments.conditions:Rising` for the moment of landing.
"""

import math

import numpy as np
import numpy.typing as npt

from configs import UserError
from environments.events import EventStep

# From the middle of the flags to a flag, in observed units.
FLAG_DISTANCE = 0.2

_SHAPE = (8,)
_X, _Y, _LEFT_LEG, _RIGHT_LEG = 0, 1, 6, 7


def land_between_flags(step: EventStep) -> bool:
  """Whether both legs touch the ground while the middle of the lander is between the flags.

  The observation does not show where the legs are, about 0.1 to each side. Close to a flag, one of them may stand outside.

  Raises:
    UserError: the observation is not a lunar lander's.
  """
  observation = _observation(step, "land_between_flags")
  return bool(observation[_LEFT_LEG] > 0.5 and observation[_RIGHT_LEG] > 0.5 and abs(observation[_X]) <= FLAG_DISTANCE)


def land_near_middle(step: EventStep, radius: float = FLAG_DISTANCE / 2) -> bool:
  """Whether the lander is close to the middle of the flags, in the air or on the ground.

  The paper asks only for a position "close to the middle of the flags" and does not say how close. The distance here is the one
  in the environment's own reward: of the observed x and y from (0, 0).

  Args:
    step: of the environment.
    radius: the largest distance, in observed units; by default half the way to a flag.

  Raises:
    UserError: the radius is not positive, or the observation is not a lunar lander's.
  """
  if not radius > 0:
    raise UserError(f"land_near_middle has the radius {radius!r}: it must be a positive number.")
  observation = _observation(step, "land_near_middle")
  return math.hypot(observation[_X], observation[_Y]) <= radius


def _observation(step: EventStep, name: str) -> npt.NDArray[np.float32]:
  observation: npt.NDArray[np.float32] = np.asarray(step.next_observation)
  if observation.shape != _SHAPE:
    raise UserError(
      f"{name} looks at a lunar lander's {_SHAPE[0]} numbers, and this observation has the shape {observation.shape}: use it "
      "with LunarLander-v3 or LunarLanderContinuous-v3."
    )
  return observation

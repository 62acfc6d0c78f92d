"""The randomised skills (SSET, Section 5.4) and their events: each episode asks for one of three skills, chosen at random.

  ###########     ###########     ###########
  #S   ~    #     #S     #  #     #S k |    #     lava, gap and open-door: S is the start, G the goal. The column between
  #    ~    #     #      #  #     #    #    #     them is another one in each episode.
  #         #     #      .  #     #    #    #
  #    ~   G#     #      # G#     #    |   G#
  ###########     ###########     ###########

The paper says that the agent has to avoid lava, to go through a gap, or to open the correct door, that all positions and
colours are random, and that a cell which holds a door in one episode may hold lava in the next. Observation, actions and
rewards are those of the obstacle course. The paper leaves open the rest, start and goal included. Here the correct door is the
one with the colour of the only key; the others have other colours.
"""

from typing import Any, ClassVar

from configs import UserError
from environments.arguments import check_whole
from environments.grid_world import KEY_COLOURS, GridWorld
from environments.obstacle_course import at_door, at_gap, at_lava, done, pickup_key

__all__ = ["SKILLS", "RandomisedSkills", "at_door", "at_gap", "at_lava", "done", "pickup_key"]

SKILLS = ("lava", "gap", "open_door")
MAX_SIZE = 100


class RandomisedSkills(GridWorld):
  """One room, divided by lava, by a wall with a gap, or by a wall with locked doors.

  Observation, actions, rewards and `info` are those of `GridWorld`, with a view; `info` also has the episode's `skill`, one
  of `SKILLS`.
  """

  NAME: ClassVar[str] = "randomised_skills"

  def __init__(  # noqa: PLR0913  # The keyword arguments are the world's config.
    self,
    width: int = 9,
    height: int = 5,
    doors: int = 2,
    skill: str | None = None,
    time_limit: int = 200,
    step_reward: float = -0.01,
    render_mode: str | None = None,
    highlight: bool = False,
  ):
    """Prepares the room.

    Args:
      width: columns of the floor.
      height: its rows.
      doors: locked doors in a wall with doors, all of different colours; one of them has a key.
      skill: the one of `SKILLS` that every episode asks for; None for a random one in each episode.
      time_limit: in steps; the episode is truncated there.
      step_reward: for every step that neither reaches the goal nor does harm.
      render_mode: "rgb_array" or None.
      highlight: whether pictures show what the agent sees.

    Raises:
      UserError: an argument is not valid, or minigrid is not installed.
    """
    check_whole(self.NAME, "width", width, 5, MAX_SIZE)
    check_whole(self.NAME, "height", height, 2, MAX_SIZE)
    self.doors = check_whole(self.NAME, "number of doors", doors, 1, min(len(KEY_COLOURS), height))
    self.skills = _check_skill(skill)
    self.skill = self.skills[0]
    super().__init__((width, height), (1, 1), (width, height), time_limit, step_reward, render_mode, highlight)

  def _lay_out(self) -> None:
    self.skill = self.skills[int(self.np_random.integers(len(self.skills)))]
    column = int(self.np_random.integers(3, self.width - 3))  # At least two columns on either side.
    if self.skill == "lava":
      self._add_lava(column)
    elif self.skill == "gap":
      self._add_wall(column, self._random_row())
    else:
      floor = [(x, y) for x in range(1, column) for y in range(1, self.height - 1) if (x, y) != self.start]
      self._add_doors(column, self.doors, 1, floor)

  def _info(self, happening: str, moved: bool) -> dict[str, Any]:
    return {**super()._info(happening, moved), "skill": self.skill}


def _check_skill(skill: str | None) -> tuple[str, ...]:
  if skill is None:
    return SKILLS
  if skill not in SKILLS:
    raise UserError(f"randomised_skills has the skill {skill!r}: use one of {', '.join(SKILLS)}, or none for all.")
  return (skill,)

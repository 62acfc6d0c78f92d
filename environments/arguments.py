"""Checks of the built-in worlds' arguments."""

from configs import UserError


def check_whole(world: str, name: str, value: int, least: int, most: int | None = None) -> int:
  """`value`, if it is a whole number from `least` to `most`.

  Raises:
    UserError: it is not.
  """
  if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
    bounds = f"from {least} to {most}" if most is not None else f"of at least {least}"
    raise UserError(f"{world} has the {name} {value!r}: it must be a whole number {bounds}.")
  return value


def check_render_mode(world: str, render_mode: str | None) -> str | None:
  """`render_mode`, if it is "rgb_array" or None.

  Raises:
    UserError: it is not.
  """
  if render_mode not in (None, "rgb_array"):
    raise UserError(f"{world} has no render_mode {render_mode!r}: use 'rgb_array' or none.")
  return render_mode

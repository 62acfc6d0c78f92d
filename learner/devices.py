"""The device that a learner computes on."""

import tensorflow as tf

from configs import UserError


def choose_device(name: str) -> str:
  """The TensorFlow device `name`; where it is empty, the first GPU or, without one, the CPU.

  Raises:
    UserError: TensorFlow sees no such device.
  """
  known = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()]
  if not name:
    return "GPU:0" if "GPU:0" in known else "CPU:0"
  if name not in known:
    raise UserError(
      f"TensorFlow sees no device {name!r}, only {', '.join(known)}: choose one, or leave learner.device empty."
    )
  return name


def may_compile(variable: tf.Variable) -> bool:
  """Whether XLA may compile functions of a variable: on a GPU it would need the CUDA compiler besides the libraries."""
  return "GPU" not in variable.device

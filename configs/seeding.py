"""The seed of every role, derived from the run's seed."""

import zlib

import numpy as np


def derive_seed(seed: int, role: str, index: int = 0) -> int:
  """The seed, in [0, 2^31), of the `index`-th process of a role; the seeds of different roles and indices are independent."""
  entropy = [seed, zlib.crc32(role.encode()), index]
  return int(np.random.SeedSequence(entropy).generate_state(1)[0] & 0x7FFFFFFF)

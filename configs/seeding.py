"""The seed of every role, derived from the run's seed."""

import zlib

import numpy as np


def derive_seed(seed: int, role: str, index: int = 0, life: int = 0) -> int:
  """The seed, in [0, 2^31), of a process of a run.

  Seeds of different roles, indices and lives are independent.

  Args:
    seed: of the run.
    role: of the process.
    index: among the processes of its role.
    life: how many processes of this role and index ran before; another life must not repeat what the one before did.
  """
  entropy = [seed, zlib.crc32(role.encode()), index, *([life] if life else [])]
  return int(np.random.SeedSequence(entropy).generate_state(1)[0] & 0x7FFFFFFF)

"""ReaPER's Algorithm 2 in plain loops over everything, beside the oracle of the memory."""

from tests.replay_memory.oracle import Key, Oracle


class ReliabilityOracle:
  """delta of each stored row, and what lines 16 to 21 make of them."""

  def __init__(self, oracle: Oracle, alpha: float, omega: float):
    self._oracle = oracle
    self._alpha, self._omega = alpha, omega
    self.errors: dict[Key, float] = {}
    self._largest_error = 1.0

  def new_criteria(self) -> list[float]:
    """Line 7, for each table."""
    return [max(weights.values(), default=0.0) or 1.0 for weights in self._oracle.weights]

  def note_added(self, keys: list[Key]) -> None:
    for key in keys:
      if key in self._oracle.stored and key not in self.errors:  # It may have been known already.
        self.errors[key] = self._largest_error
    self.errors = {key: error for key, error in self.errors.items() if key in self._oracle.stored}

  def update(self, errors: dict[Key, float]) -> None:
    """Sets errors, and every criterion anew."""
    self.errors.update(errors)
    assert self.errors.keys() == self._oracle.stored.keys()
    for weights in self._oracle.weights:
      for key in weights:
        weights[key] = self.criterion(key)
    self._largest_error = max(self.errors.values(), default=0.0) or 1.0

  def criterion(self, key: Key) -> float:
    return self.reliability(key) ** self._omega * self.errors[key] ** self._alpha if self.errors[key] else 0.0

  def reliability(self, key: Key) -> float:
    own = self._chain_of(key[0])
    after = [other for other in own if other[1] > key[1]]
    if self._oracle.episodes[key[0]].state in ("terminated", "truncated"):
      total = self._sum(own)
      return 1 - self._sum(after) / total if total else 1.0
    up_to = [other for other in own if other[1] <= key[1]]
    largest = max(self._sum(self._chain_of(identity)) for identity in {key[0] for key in self.errors})
    return 1 - (largest - self._sum(up_to)) / largest if largest else 1.0

  def _chain_of(self, identity: int) -> list[Key]:
    return sorted(key for key in self.errors if key[0] == identity)

  def _sum(self, keys: list[Key]) -> float:
    return sum(self.errors[key] for key in keys)

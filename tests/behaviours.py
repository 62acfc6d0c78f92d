"""Algorithms that read the behaviour of their rows."""

import dataclasses

import pytest

from configs.algorithms import ALGORITHMS, AlgorithmConfig


def storing(algorithm: AlgorithmConfig, monkeypatch: pytest.MonkeyPatch) -> AlgorithmConfig:
  """The same algorithm, but one that reads the behaviour of its rows; until the test ends its name stands for it."""
  subclass: type[AlgorithmConfig] = type("Storing", (type(algorithm),), {"STORES_BEHAVIOUR": True})
  kind = dataclasses.dataclass(frozen=True)(subclass)
  monkeypatch.setitem(ALGORITHMS, algorithm.NAME, kind)
  fields = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
  made: AlgorithmConfig = kind(**fields)
  return made

"""The versions that a run records."""

import importlib.metadata

import pytest

from configs.versions import LIBRARIES, installed_version, library_versions


@pytest.fixture(name="installed")
def _installed(monkeypatch):
  """Distribution -> version; the test fills it."""
  versions: dict[str, str] = {}

  def version(name):
    if name not in versions:
      raise importlib.metadata.PackageNotFoundError(name)
    return versions[name]

  monkeypatch.setattr(importlib.metadata, "version", version)
  return versions


def test_tensorflow_without_cuda_is_tensorflow(installed):
  installed.update({name: "1.0" for name in LIBRARIES if name != "tensorflow"}, **{"tensorflow-cpu": "2.8.4"})
  assert library_versions()["tensorflow"] == "2.8.4"


def test_a_library_that_is_not_installed_has_no_version(installed):
  for name in ("tensorflow", "numpy"):
    with pytest.raises(importlib.metadata.PackageNotFoundError):
      installed_version(name)

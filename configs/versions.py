"""The libraries whose versions a run records."""

import importlib.metadata

LIBRARIES = ("dm-reverb", "tensorflow", "dm-acme", "gymnasium", "numpy")


def library_versions() -> dict[str, str]:
  """Library -> the version that is installed here."""
  return {name: importlib.metadata.version(name) for name in LIBRARIES}

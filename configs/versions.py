"""The libraries whose versions a run records."""

import importlib.metadata

LIBRARIES = ("dm-reverb", "tensorflow", "dm-acme", "gymnasium", "numpy")
# Library -> the same without CUDA, under a name of its own; an image without GPUs has it.
_VARIANTS = {"tensorflow": "tensorflow-cpu"}


def installed_version(library: str) -> str:
  """The version that is installed here.

  Raises:
    importlib.metadata.PackageNotFoundError: the library is not installed.
  """
  try:
    return importlib.metadata.version(library)
  except importlib.metadata.PackageNotFoundError:
    if library not in _VARIANTS:
      raise
    return importlib.metadata.version(_VARIANTS[library])


def library_versions() -> dict[str, str]:
  """Library -> the version that is installed here."""
  return {name: installed_version(name) for name in LIBRARIES}

"""Loads TensorFlow's CUDA libraries: the system's, or those of the dependency group `gpu`."""

import ctypes
import dataclasses
import importlib.util
import pathlib

# What TensorFlow 2.8 opens (CUDA 11, cuDNN 8) -> the wheel that holds it. Each library comes after its dependencies.
LIBRARIES = {
  "libcudart.so.11.0": "cuda_runtime",
  "libcublasLt.so.11": "cublas",
  "libcublas.so.11": "cublas",
  "libcufft.so.10": "cufft",
  "libcurand.so.10": "curand",
  "libcusparse.so.11": "cusparse",
  "libcusolver.so.11": "cusolver",
  "libcudnn.so.8": "cudnn",
}
DRIVER = "libcuda.so.1"


@dataclasses.dataclass(frozen=True)
class Library:
  """One shared library.

  Attributes:
    name: the file name that TensorFlow asks for.
    place: where it was found: a file of a wheel, or "the system"; empty if it was not found.
    problem: why it could not be loaded; empty if it was.
  """

  name: str
  place: str
  problem: str = ""


def load_driver() -> Library:
  """Loads NVIDIA's driver library."""
  return _load(DRIVER, None)


def load_libraries() -> list[Library]:
  """Loads all CUDA libraries, so that TensorFlow finds those of wheels, which are on no search path, by their names.

  This takes a second if they are installed, and no time if they are not.
  """
  wheels = _wheels()
  return [
    _load(name, next((root / part / "lib" / name for root in wheels if (root / part / "lib" / name).is_file()), None))
    for name, part in LIBRARIES.items()
  ]


def _wheels() -> list[pathlib.Path]:
  spec = importlib.util.find_spec("nvidia")
  return [pathlib.Path(place) for place in spec.submodule_search_locations or ()] if spec is not None else []


def _load(name: str, file: pathlib.Path | None) -> Library:
  place = "the system" if file is None else str(file)
  try:
    ctypes.CDLL(name if file is None else str(file), mode=ctypes.RTLD_GLOBAL)
  except OSError as error:
    missing = file is None and "cannot open shared object file" in str(error)
    return Library(name, "" if missing else place, str(error))
  return Library(name, place)

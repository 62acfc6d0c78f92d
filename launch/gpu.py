"""Loads TensorFlow's CUDA libraries: the system's, or those of the dependency group `gpu`."""

import ctypes
import dataclasses
import importlib.util
import pathlib

RUNTIME = "libcudart.so.11.0"
# What TensorFlow 2.8 opens (CUDA 11, cuDNN 8) -> the wheel that holds it. Each library comes after its dependencies.
LIBRARIES = {
  RUNTIME: "cuda_runtime",
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


def load_runtime() -> None:
  """Loads CUDA's runtime, if it is in a wheel; `load_libraries` loads the rest.

  TensorFlow looks for the runtime when it is imported, and never again. Where it is only found later, TensorFlow sees the GPU,
  and the first calculation there ends the process.
  """
  if (file := _in_a_wheel(RUNTIME)) is not None:
    _load(RUNTIME, file)


def load_libraries() -> list[Library]:
  """Loads all CUDA libraries, so that TensorFlow finds those of wheels, which are on no search path, by their names.

  This takes a second if they are installed, and no time if they are not.
  """
  return [_load(name, _in_a_wheel(name)) for name in LIBRARIES]


def _in_a_wheel(name: str) -> pathlib.Path | None:
  spec = importlib.util.find_spec("nvidia")
  places = (spec.submodule_search_locations if spec is not None else None) or ()
  files = (pathlib.Path(place) / LIBRARIES[name] / "lib" / name for place in places)
  return next((file for file in files if file.is_file()), None)


def _load(name: str, file: pathlib.Path | None) -> Library:
  place = "the system" if file is None else str(file)
  try:
    ctypes.CDLL(name if file is None else str(file), mode=ctypes.RTLD_GLOBAL)
  except OSError as error:
    missing = file is None and "cannot open shared object file" in str(error)
    return Library(name, "" if missing else place, str(error))
  return Library(name, place)

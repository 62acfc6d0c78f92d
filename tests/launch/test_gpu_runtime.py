"""What a role imports: CUDA's runtime before TensorFlow, which looks for it once, and nothing slow that it does not need."""

import _ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

_ORDER = """
import importlib, sys
found = []
def note(event, arguments):
  if event == "import" and arguments[0] == "tensorflow":
    found.append(arguments[0])
  if event == "ctypes.dlopen" and str(arguments[0]).endswith("libcudart.so.11.0"):
    found.append("runtime")
sys.addaudithook(note)
importlib.import_module(sys.argv[1])
slow = {"keras", "matplotlib", "numba", "pandas.core", "requests.api", "scipy.ndimage._filters"}
print(*found, *(slow & set(sys.modules)))
"""


# Keras and Numba are the learner's, and an inline run has one.
@pytest.mark.parametrize(
  ("module", "needed"),
  [("launch.roles", set()), ("launch.train", set()), ("experiments.one_run", {"keras", "numba"})],
)
def test_cudas_runtime_is_loaded_before_tensorflow_and_nothing_slow_that_is_not_needed(
  module: str, needed: set[str], tmp_path: pathlib.Path
) -> None:
  library = tmp_path / "nvidia/cuda_runtime/lib/libcudart.so.11.0"
  library.parent.mkdir(parents=True)
  shutil.copy(_ctypes.__file__, library)  # Any library: a wheel of CUDA takes hundreds of megabytes.
  path = os.pathsep.join([str(tmp_path), *sys.path])
  ended = subprocess.run(
    [sys.executable, "-c", _ORDER, module],
    env={**os.environ, "PYTHONPATH": path},
    stdout=subprocess.PIPE,
    text=True,
    check=True,
    timeout=120,
  )
  found = ended.stdout.split()
  assert found[:2] == ["runtime", "tensorflow"]
  assert set(found[2:]) - {"tensorflow"} == needed


@pytest.mark.parametrize("first", ["tensorflow", "keras"])
def test_keras_is_imported_by_its_first_use(first: str) -> None:
  order = f"""
import launch, sys, {first}
import tensorflow as tf
assert ("keras" in sys.modules) == {first == "keras"}
of_tensorflow = tf.keras.Model
import keras
assert keras.Model is of_tensorflow
"""
  subprocess.run([sys.executable, "-c", order], check=True, timeout=120)


def test_what_keras_puts_off_is_imported_by_its_first_use() -> None:
  order = """
import launch
import tensorflow as tf
tf.keras.Model
import pandas, requests, scipy.ndimage
assert pandas.Series([1, 2]).sum() == 3
assert list(scipy.ndimage.shift([1, 2], 1)) == [0, 1]
assert requests.codes.ok == 200
from keras.engine import data_adapter
assert data_adapter.pd.Series is pandas.Series
"""
  subprocess.run([sys.executable, "-W", "error", "-c", order], check=True, timeout=120)


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_tensorflow_is_imported_without_the_collector_which_is_then_as_it_was(state: str) -> None:
  order = f"""
import gc, importlib
import launch
collections = []
gc.callbacks.append(lambda phase, _: collections.append(phase))
gc.{state}()
import tensorflow as tf
assert len(collections) < 10  # Of some 1,200: each has a start and an end.
assert gc.isenabled() == {state == "enable"}
assert gc.get_freeze_count() > 50_000
# Courier, of which Launchpad is made, looks there for TensorFlow's libraries.
assert importlib.util.find_spec("tensorflow").loader.path == tf.__file__
import scipy
"""
  subprocess.run([sys.executable, "-c", order], check=True, timeout=120)

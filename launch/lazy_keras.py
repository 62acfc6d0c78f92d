"""Lets TensorFlow import Keras when something uses it, and not before."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence


class _Later(importlib.abc.Loader):
  """Loads nothing."""

  def exec_module(self, module: types.ModuleType) -> None:
    """Raises ImportError."""
    raise ImportError(f"{module.__name__} is imported when it is first used.", name=module.__name__)


class _KerasLater(importlib.abc.MetaPathFinder):
  """Refuses Keras to TensorFlow's own import, and then stands aside.

  TensorFlow imports Keras last of all, so that a SavedModel of Keras can be loaded at once, and goes on without it if that fails.
  Of the roles only the learner uses Keras. The others would take 45 MB more for it, and a sixth more time to import TensorFlow.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """As `MetaPathFinder.find_spec`."""
    if fullname != "keras" or not _is_being_imported("tensorflow"):
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is not None:
      spec.loader = _Later()  # TensorFlow wants to know where Keras lies.
    return spec


def _is_being_imported(name: str) -> bool:
  spec = getattr(sys.modules.get(name), "__spec__", None)
  return bool(getattr(spec, "_initializing", False))


def import_keras_later() -> None:
  """Leaves the import of Keras to the first use of `tf.keras`, in this process, if TensorFlow is not imported yet."""
  sys.meta_path.insert(0, _KerasLater())

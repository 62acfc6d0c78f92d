"""Makes importing TensorFlow take less time, and leaves out the libraries that few processes use."""

import gc
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

# TensorFlow imports Keras last of all, so that a SavedModel of Keras can be loaded at once. An old Keras of its own, which few of
# its parts use, tries the next three, and TensorBoard tries the last one. TensorFlow goes on without any of them.
_LATER = ("keras", "h5py", "requests", "scipy", "fsspec")


class _Later(importlib.abc.Loader):
  """Loads nothing."""

  def exec_module(self, module: types.ModuleType) -> None:
    """Raises ImportError."""
    raise ImportError(f"{module.__name__} is imported when it is first used.", name=module.__name__)


class _WithoutCollector(importlib.machinery.SourceFileLoader):
  """Imports a module while the garbage collector is off, and then has the collector leave alone all objects that there are.

  Nearly all of TensorFlow's stay, and the collector would look at them some 600 times: a seventh of the time to import it.
  """

  def exec_module(self, module: types.ModuleType) -> None:
    """As `Loader.exec_module`."""
    was_on = gc.isenabled()
    gc.disable()
    try:
      super().exec_module(module)
    finally:
      gc.freeze()
      if was_on:
        gc.enable()


class _Finder(importlib.abc.MetaPathFinder):
  """Refuses some libraries to TensorFlow's own import, and then stands aside.

  Of the roles only the learner uses Keras, which then imports the others. The rest would take 60 MB more for them, and a quarter
  more time to import TensorFlow.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """As `MetaPathFinder.find_spec`."""
    is_refused = fullname in _LATER and _is_being_imported("tensorflow")
    if not is_refused and fullname != "tensorflow":
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is None:
      return None
    if is_refused:
      spec.loader = _Later()  # TensorFlow wants to know where Keras lies.
    elif isinstance(spec.loader, importlib.machinery.SourceFileLoader):
      spec.loader = _WithoutCollector(spec.loader.name, spec.loader.path)
    return spec


def _is_being_imported(name: str) -> bool:
  spec = getattr(sys.modules.get(name), "__spec__", None)
  return bool(getattr(spec, "_initializing", False))


def lighten_import() -> None:
  """Has this process import TensorFlow without Keras and others, which are imported when something uses them.

  It does nothing for what is imported already.
  """
  sys.meta_path.insert(0, _Finder())

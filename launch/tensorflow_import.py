"""Makes importing TensorFlow and Keras take less time, and leaves out the libraries that few processes use."""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

# TensorFlow imports Keras last of all, so that a SavedModel of Keras can be loaded at once. An old Keras of its own, which few of
# its parts use, tries the next three, and TensorBoard tries the last one. TensorFlow goes on without any of them.
_LATER = ("keras", "h5py", "requests", "scipy", "fsspec")
# Keras imports these for data frames, changes of pictures and a callback.
_AT_FIRST_USE = ("pandas", "scipy.ndimage", "requests")


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
  """Refuses some libraries to TensorFlow's own import, puts some of Keras' off, and stands aside for everything else.

  Of the roles only the learner uses Keras. The rest would take 60 MB more for it and what it imports, and a quarter more time to
  import TensorFlow.
  """

  def find_spec(
    self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    """As `MetaPathFinder.find_spec`."""
    is_refused = fullname in _LATER and _is_being_imported("tensorflow")
    is_put_off = fullname in _AT_FIRST_USE and _is_being_imported("keras")
    if not (is_refused or is_put_off or fullname == "tensorflow"):
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is None or spec.loader is None:
      return None
    if is_refused:
      spec.loader = _Later()  # TensorFlow wants to know where Keras lies.
    elif is_put_off:
      spec.loader = importlib.util.LazyLoader(spec.loader)
    elif isinstance(spec.loader, importlib.machinery.SourceFileLoader):
      spec.loader = _WithoutCollector(spec.loader.name, spec.loader.path)
    return spec


def _is_being_imported(name: str) -> bool:
  spec = getattr(sys.modules.get(name), "__spec__", None)
  return bool(getattr(spec, "_initializing", False))


def lighten_import() -> None:
  """Has this process import TensorFlow and Keras without what few processes use, which is imported when something uses it.

  It does nothing for what is imported already.
  """
  sys.meta_path.insert(0, _Finder())

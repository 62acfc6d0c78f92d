"""Configs as plain data: to and from JSON, and overrides by dotted path."""

import ast
import dataclasses
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import cattrs
from cattrs.cols import homogenous_tuple_structure_factory, is_mapping, mapping_structure_factory
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from configs.algorithms import AlgorithmConfig, find_algorithm
from configs.checks import shown
from configs.errors import UserError
from configs.migration import MOVED_KEYS, upgraded
from configs.run import RunConfig

T = TypeVar("T")

# The JSON field that names the algorithm.
_TAG = "name"
# `learner.algorithm=NAME` on the command line replaces this part as a whole.
_ALGORITHM = "learner.algorithm"


def _structure_bool(value: Any, _: type) -> bool:
  # bool("false") is True; only real Booleans pass.
  if isinstance(value, bool):
    return value
  raise ValueError(f"{value!r} is not true or false")


def _structure_int(value: Any, _: type) -> int:
  if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_whole(value):
    raise ValueError(f"{value!r} is not a whole number")
  return int(value)


def _is_whole(value: float) -> bool:
  return isinstance(value, int) or value.is_integer()


def _structure_float(value: Any, _: type) -> float:
  if isinstance(value, bool) or not isinstance(value, (int, float)):
    raise ValueError(f"{value!r} is not a number")
  try:
    return float(value)
  except OverflowError:
    raise ValueError(f"{shown(value)} is larger than any number here") from None


def _structure_str(value: Any, _: type) -> str:
  if not isinstance(value, str):
    raise ValueError(f"{value!r} is not a string")
  return value


def _is_literal(kind: Any) -> bool:
  origin: Any = get_origin(kind)
  return origin is Literal


def _structure_choice(value: Any, kind: Any) -> Any:
  choices = get_args(kind)
  if value not in choices:
    raise ValueError(f"{value!r} is not one of {', '.join(map(str, choices))}")
  return value


def _structure_algorithm(value: Any, _: type) -> AlgorithmConfig:
  fields = {_TAG: value} if isinstance(value, str) else value
  if not isinstance(fields, Mapping):
    raise ValueError(f"{value!r} is neither the name of an algorithm nor an object with one")
  kind = find_algorithm(fields.get(_TAG))
  return _CONVERTER.structure({name: item for name, item in fields.items() if name != _TAG}, kind)


def _is_list(kind: Any) -> bool:
  origin: Any = get_origin(kind)
  return origin is tuple


def _structure_list(kind: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
  structure = homogenous_tuple_structure_factory(kind, converter)

  def checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, (list, tuple)):
      raise ValueError(f"{value!r} is not a list")
    return structure(value, kind)

  return checked


def _structure_fields(kind: Any, converter: cattrs.Converter) -> Callable[[Any, Any], Any]:
  """Structures a dataclass, or a mapping of any names."""
  structure: Callable[[Any, Any], Any]
  if is_mapping(kind):
    structure = mapping_structure_factory(kind, converter)
  else:
    structure = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

  def checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, Mapping):
      raise ValueError(f"{value!r} is not an object of names and values")
    return structure(value, kind)

  return checked


def _make_converter() -> cattrs.Converter:
  converter = cattrs.Converter(forbid_extra_keys=True)
  converter.register_structure_hook_factory(_is_list, _structure_list)
  converter.register_structure_hook_factory(
    lambda kind: dataclasses.is_dataclass(kind) or is_mapping(kind), _structure_fields
  )
  converter.register_structure_hook(bool, _structure_bool)
  converter.register_structure_hook(int, _structure_int)
  converter.register_structure_hook(float, _structure_float)
  converter.register_structure_hook(str, _structure_str)
  converter.register_structure_hook_func(_is_literal, _structure_choice)
  # Only the union itself; its members are structured like any dataclass.
  converter.register_structure_hook_func(lambda kind: kind is AlgorithmConfig, _structure_algorithm)
  structure_run = _structure_fields(RunConfig, converter)
  converter.register_structure_hook(RunConfig, lambda value, kind: structure_run(upgraded(value), kind))
  return converter


_CONVERTER = _make_converter()


def to_dict(config: Any) -> dict[str, Any]:
  """A dataclass as nested dicts and lists of JSON values."""
  # Through JSON, so that tuples become lists, and a value that is not JSON fails here and not on another machine.
  try:
    data = json.loads(json.dumps(_plain(config, lambda value, field: True), allow_nan=False))
  except (TypeError, ValueError) as error:
    raise UserError(
      f"The config holds a value that is not JSON ({error}): use numbers, strings, lists and dicts."
    ) from None
  assert isinstance(data, dict)
  return data


def without_defaults(config: Any) -> dict[str, Any]:
  """Like `to_dict`, without the fields that have their default value; an algorithm keeps its name. `from_dict` reads it.

  A field that is added to a dataclass later does not change the result as long as it has its default value.
  """
  data = _plain(config, lambda value, field: bool(value != _default(field)))
  assert isinstance(data, dict)
  return data


def _plain(value: Any, keeps: Callable[[Any, dataclasses.Field[Any]], bool]) -> Any:
  """Dataclasses as dicts and lists, with only the fields for which `keeps(value, field)` is true."""
  if dataclasses.is_dataclass(value):
    tag = {_TAG: value.NAME} if isinstance(value, AlgorithmConfig) else {}
    fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return tag | {field.name: _plain(item, keeps) for field, item in fields if keeps(item, field)}
  if isinstance(value, Mapping):
    return {key: _plain(item, keeps) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [_plain(item, keeps) for item in value]
  return value


def _default(field: dataclasses.Field[Any]) -> Any:
  return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def from_dict(data: Mapping[str, Any], cls: type[T] = RunConfig) -> T:  # type: ignore[assignment]  # A default cannot bind T.
  """The dataclass `cls` that `to_dict` turned into `data`.

  Raises:
    UserError: a key is unknown (the message suggests the nearest), a value has the wrong type, or the config is not valid.
  """
  try:
    return _CONVERTER.structure(data, cls)
  except (BaseValidationError, ValueError) as error:
    raise UserError(_first_sentence(error)) from None


def _first_sentence(error: BaseException, path: str = "") -> str:
  """The first mistake in a tree of cattrs errors, as one sentence."""
  if isinstance(error, UserError):
    return str(error)
  if isinstance(error, ForbiddenExtraKeysError):
    key = sorted(error.extra_fields)[0]
    known = [field.name for field in dataclasses.fields(error.cl)] if error.cl else []
    return _unknown_key(f"{path}.{key}".lstrip("."), key, known)
  if isinstance(error, BaseValidationError):
    inner = error.exceptions[0]
    step = _last_note(inner)
    return _first_sentence(inner, f"{path}.{step}".strip(".") if step else path)
  if isinstance(error, KeyError):
    return f"The config's {path or 'top level'} is missing: give it a value."
  return f"The config's {path or 'top level'} is not valid: {error}."


def _last_note(error: BaseException) -> str:
  for note in getattr(error, "__notes__", ()):
    if hasattr(note, "name"):
      return str(note.name)
    if hasattr(note, "index"):
      return str(note.index)
  return ""


def _unknown_key(path: str, key: str, known: Iterable[str]) -> str:
  names = list(known)
  near = difflib.get_close_matches(key, names, n=3, cutoff=0.5)
  hint = f"did you mean {' or '.join(repr(name) for name in near)}?" if near else f"known here: {', '.join(names)}."
  return f"The config has no key {path!r}: {hint}"


def to_json(config: Any) -> str:
  """A dataclass as indented JSON."""
  return json.dumps(to_dict(config), indent=2)


def from_json(text: str, what: str = "The config") -> RunConfig:
  """A `RunConfig` from JSON.

  Args:
    text: the JSON.
    what: what `text` is, for the message if it is not JSON.

  Raises:
    UserError: the text is not JSON or not a config.
  """
  try:
    data = json.loads(text)
  except (ValueError, RecursionError) as error:
    raise UserError(f"{what} is not JSON ({error}): correct it, or write one with --print_config.") from None
  if not isinstance(data, dict):
    raise UserError(f"{what} is not a JSON object: begin it with {{, as the output of --print_config does.")
  return from_dict(data)


def parse_value(text: str) -> Any:
  """A command-line value: a Python literal, true, false, none, or else the text itself."""
  words = {"true": True, "false": False, "none": None, "null": None}
  if text.lower() in words:
    return words[text.lower()]
  try:
    value = ast.literal_eval(text)
  except (ValueError, SyntaxError, MemoryError, RecursionError):
    return text
  return list(value) if isinstance(value, tuple) else value


def override(config: RunConfig, overrides: Mapping[str, str]) -> RunConfig:
  """`config` with values replaced by dotted path.

  A table or an event is reached by its name or its index: `replay.tables.goal.probability`, `events.0.history`. An algorithm's
  name selects its defaults, whatever was set before: `learner.algorithm=sac`. The order of the overrides does not matter: a
  field is set after the part that contains it.

  Args:
    config: the config to start from; it is not changed.
    overrides: path -> value as text; see `parse_value`.

  Raises:
    UserError: a path does not exist (the message suggests the nearest), or the new config is not valid.
  """
  data = to_dict(config)
  paths = {path: _ALGORITHM if path == f"{_ALGORITHM}.{_TAG}" else path for path in overrides}
  for path in sorted(overrides, key=lambda path: paths[path].count(".")):
    _set(data, paths[path], overrides[path])
  return from_dict(data)


def _set(data: dict[str, Any], path: str, text: str) -> None:
  if path in MOVED_KEYS:
    raise UserError(f"The config has no key {path!r} any more: write --config.{MOVED_KEYS[path]}.")
  *parents, last = path.split(".")
  node: Any = data
  for depth, key in enumerate(parents):
    node = _child(node, key, ".".join(parents[: depth + 1]))
  current = _child(node, last, path) if not _is_free_form(parents) else None
  value = text if isinstance(current, str) else parse_value(text)
  if isinstance(node, list):
    node[_position(node, last)] = value
  else:
    node[last] = _with_defaults(value) if path == _ALGORITHM else value


def _with_defaults(algorithm: Any) -> Any:
  """An algorithm given by its name, or by its name and some fields, with all its fields."""
  fields = {_TAG: algorithm} if isinstance(algorithm, str) else algorithm
  return to_dict(find_algorithm(fields.get(_TAG))()) | fields if isinstance(fields, dict) else algorithm


def _is_free_form(parents: list[str]) -> bool:
  # An environment, a condition or a potential may take any keyword argument.
  return bool(parents) and parents[-1] in ("arguments", "potential_arguments", "environment_arguments")


def _position(node: list[Any], key: str) -> int:
  if key.isdigit():
    return int(key)
  return [item.get("name") if isinstance(item, dict) else None for item in node].index(key)


def _child(node: Any, key: str, path: str) -> Any:
  if isinstance(node, dict) and key in node:
    return node[key]
  if isinstance(node, list):
    try:
      return node[_position(node, key)]
    except (ValueError, IndexError):
      names = [str(item["name"]) for item in node if isinstance(item, dict) and "name" in item]
      raise UserError(_unknown_key(path, key, names or map(str, range(len(node))))) from None
  known = list(node) if isinstance(node, dict) else []
  if not known:
    parent = path.rpartition(".")[0]
    raise UserError(f"The config's {parent!r} is a value and has no key {key!r}: write --config.{parent}=VALUE.")
  raise UserError(_unknown_key(path, key, known))

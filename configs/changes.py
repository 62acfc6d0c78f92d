"""Configs as flat paths and values, and what differs between two of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from configs.run import RunConfig
from configs.serialization import to_dict

_ABSENT = object()


def flat_config(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
  """Dotted path -> value of every field, as `--config.PATH` spells it: tables and events are reached by name."""
  for key, value in config.items():
    path = f"{prefix}{key}"
    named = (
      {item["name"]: item for item in value if isinstance(item, Mapping) and "name" in item} if _listed(value) else {}
    )
    if isinstance(value, Mapping) and value:
      yield from flat_config(value, f"{path}.")
    elif named and len(named) == len(value):
      for name, item in named.items():
        yield from flat_config({field: part for field, part in item.items() if field != "name"}, f"{path}.{name}.")
    else:
      yield path, value


def _listed(value: Any) -> bool:
  return isinstance(value, list) and bool(value)


def config_changes(old: RunConfig, new: RunConfig) -> list[str]:
  """What differs between two configs: a line "path: old -> new" for each field, in the order of their paths."""
  before, after = dict(flat_config(to_dict(old))), dict(flat_config(to_dict(new)))
  changed = [path for path in {**before, **after} if before.get(path, _ABSENT) != after.get(path, _ABSENT)]
  return [f"{path}: {_shown(before, path)} -> {_shown(after, path)}" for path in sorted(changed)]


def _shown(values: Mapping[str, Any], path: str) -> str:
  return str(values[path]) if path in values else "absent"

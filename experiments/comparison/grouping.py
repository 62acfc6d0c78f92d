"""Groups of runs that differ in nothing but their seed, and what distinguishes the groups."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from configs.changes import flat_config
from experiments.comparison.selection import as_text, check_field, field_of
from launch.stored_run import StoredRun

# They name a run and change nothing in it.
_NAMES = ("name", "method", "seed")
_WORLD = ("environment.name", "environment.arguments.")
# Runs that are evaluated in different worlds cannot be compared either.
_EVALUATED = "evaluator.environment_arguments."
# A legend cannot hold more fields, and more fields have too many combinations.
_MOST_IN_LABEL = 3
_MOST_COMPARED = 20


@dataclasses.dataclass(frozen=True)
class Group:
  """Runs in one world whose configs differ in nothing but their seed.

  Attributes:
    world: the environment and its arguments, in words.
    label: the values of the fields that the groups are named by, and what else distinguishes them.
    runs: by seed.
    fields: path -> value as text, of the config that the runs share; empty if it is not known.
  """

  world: str
  label: str
  runs: tuple[StoredRun, ...]
  fields: Mapping[str, str]

  @property
  def key(self) -> tuple[str, str]:
    """Its world and its label, which no other group has together."""
    return self.world, self.label


@dataclasses.dataclass(frozen=True)
class Difference:
  """A field in which groups differ.

  Attributes:
    path: of the field.
    values: one for each group, as text; None where the group's config is not known, or has no such field.
  """

  path: str
  values: tuple[str | None, ...]


def group_runs(runs: Sequence[StoredRun], by: Sequence[str]) -> list[Group]:
  """Puts runs together that differ in nothing but their seed. Configs are never averaged over, whatever `by` says.

  Args:
    runs: of any worlds.
    by: fields of the config that name the groups; "method" is a run's method, whether its config names it or not.

  Raises:
    UserError: no run has such a field.
  """
  for path in by:
    check_field(path, runs)
  ordered = sorted(runs, key=lambda run: (_world_key(run), _key(run, by)))
  groups = [
    Group(_world_key(first), _label(first, by), tuple(sorted(members, key=_seed)), _shared_fields(first))
    for first, members in _grouped(ordered, by)
  ]
  return _with_world_names(_with_distinct_labels(groups, by))


def worlds_of(groups: Iterable[Group]) -> dict[str, list[Group]]:
  """World -> its groups, in order."""
  worlds: dict[str, list[Group]] = {}
  for group in groups:
    worlds.setdefault(group.world, []).append(group)
  return worlds


def differences(groups: Sequence[Group]) -> list[Difference]:
  """The fields in which the configs of groups differ, by path."""
  known = [group.fields for group in groups if group.fields]
  paths = sorted({path for fields in known for path in fields})
  found = [Difference(path, tuple(group.fields.get(path) for group in groups)) for path in paths]
  return [item for item in found if len({fields.get(item.path) for fields in known}) > 1]


def alike(groups: Sequence[Group]) -> dict[str, str]:
  """Path -> value of the fields in which all configs that are known are alike."""
  known = [group.fields for group in groups if group.fields]
  return {
    path: value for path, value in (known[0] if known else {}).items() if all(f.get(path) == value for f in known)
  }


def version_differences(groups: Sequence[Group]) -> list[Difference]:
  """The libraries whose versions differ between runs, each group's versions in a row."""
  names = sorted({name for group in groups for run in group.runs for name in run.versions})
  found = [Difference(name, tuple(_versions(group, name) for group in groups)) for name in names]
  return [item for item in found if len({value for value in item.values if value is not None}) > 1]


def _versions(group: Group, library: str) -> str | None:
  return ", ".join(sorted({run.versions[library] for run in group.runs if library in run.versions})) or None


def _grouped(runs: Sequence[StoredRun], by: Sequence[str]) -> Iterable[tuple[StoredRun, list[StoredRun]]]:
  for _, members in itertools.groupby(runs, key=lambda run: (_world_key(run), _key(run, by))):
    group = list(members)
    yield group[0], group


def _fields(run: StoredRun) -> dict[str, str]:
  return {path: as_text(value) for path, value in flat_config(run.config)}


def _shared_fields(run: StoredRun) -> dict[str, str]:
  """The fields in which a run's group may differ from others, but for names."""
  return {path: value for path, value in _fields(run).items() if path not in _NAMES}


def _key(run: StoredRun, by: Sequence[str]) -> tuple[tuple[tuple[float, str], ...], str]:
  """What the runs of a group have in common; of a run without a config, no more than its name and method are known."""
  shared = _shared_fields(run) or {"name": run.name}
  return tuple(_in_order(field_of(run, path)) for path in by), as_text({**shared, "a method": run.method})


def _in_order(value: Any) -> tuple[float, str]:
  """Sorts numbers by size, and before words."""
  number = isinstance(value, (int, float)) and not isinstance(value, bool)
  return float(value) if number else math.inf, as_text(value)


def _seed(run: StoredRun) -> tuple[int, str]:
  return -1 if run.seed is None else run.seed, run.run_id


def _label(run: StoredRun, by: Sequence[str]) -> str:
  names = {"method": run.method or "unknown method"}
  return ", ".join(names.get(path) or f"{short(path)}={as_text(field_of(run, path))}" for path in by)


def short(path: str) -> str:
  """The last part of a path."""
  return path.rpartition(".")[2]


def _world_key(run: StoredRun) -> str:
  fields = _fields(run)
  if _WORLD[0] not in fields:
    return run.name
  arguments = [f"{short(path)}={value}" for path, value in fields.items() if path.startswith(_WORLD[1])]
  evaluated = [f"evaluated with {short(path)}={value}" for path, value in fields.items() if path.startswith(_EVALUATED)]
  return ", ".join([fields[_WORLD[0]], *arguments, *evaluated])


def _with_distinct_labels(groups: Sequence[Group], by: Sequence[str]) -> list[Group]:
  """Adds to the labels of groups that share one what they differ in."""
  result: list[Group] = []
  for group in groups:
    same = [other for other in groups if (other.world, other.label) == (group.world, group.label)]
    label = group.label if len(same) == 1 else f"{group.label}, {_distinction(group, same, by)}"
    result.append(dataclasses.replace(group, label=label))
  return result


def _distinction(group: Group, same: Sequence[Group], by: Sequence[str]) -> str:
  """What tells a group from others of its label: its method if each has another, else the fields, or at last a number."""
  number = same.index(group)
  methods = [other.runs[0].method for other in same]
  if len(set(methods)) == len(methods) and methods[number]:
    return methods[number]
  differing = [item for item in differences(same) if item.path not in by][:_MOST_COMPARED]
  for size in range(1, _MOST_IN_LABEL + 1):
    # The fewest fields that tell all of them apart.
    for chosen in itertools.combinations(differing, size):
      values = list(zip(*(item.values for item in chosen), strict=True))
      if len(set(values)) == len(values) and group.fields:
        return ", ".join(f"{short(item.path)}={item.values[number]}" for item in chosen)
  return f"config {number + 1}"


def _with_world_names(groups: Sequence[Group]) -> list[Group]:
  """Names worlds without their arguments if that is enough to tell them apart."""
  names = {group.world: group.world.partition(",")[0] for group in groups}
  clear = {world for world, name in names.items() if list(names.values()).count(name) == 1}
  return [dataclasses.replace(group, world=names[group.world]) if group.world in clear else group for group in groups]

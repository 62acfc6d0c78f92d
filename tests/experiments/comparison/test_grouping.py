"""Groups of runs, their names, and what distinguishes them."""

import pathlib

import pytest

from configs import UserError
from configs.changes import flat_config
from experiments.comparison.finding import find_runs
from experiments.comparison.grouping import Group, alike, differences, group_runs, version_differences, worlds_of
from experiments.comparison.selection import as_text
from tests.experiments.comparison.storing import make_config, store_experiment, store_run
from tests.experiments.tiny import make_result


def grouped(root: pathlib.Path, *by: str) -> list[Group]:
  return group_runs(list(find_runs(root)), by or ("method",))


def labels(groups: list[Group]) -> list[tuple[str, list[int | None]]]:
  """Each group's label and the seeds of its runs."""
  return [(group.label, [run.seed for run in group.runs]) for group in groups]


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path: pathlib.Path) -> None:
  for seed in (2, 0, 1):
    store_run(tmp_path, make_config("sset", seed=str(seed)), [1])
  store_run(tmp_path, make_config("uniform"), [1])
  assert labels(grouped(tmp_path)) == [("sset", [0, 1, 2]), ("uniform", [0])]


def test_a_method_counts_as_such_whether_the_config_names_it_or_not_and_whatever_the_run_is_called(
  tmp_path: pathlib.Path,
) -> None:
  store_run(tmp_path, make_config("sset", seed="1"), [1])
  store_run(tmp_path, make_config("sset", seed="2", _method=""), [1])
  store_run(tmp_path, make_config("sset", seed="3", name="again"), [1])
  assert labels(grouped(tmp_path)) == [("sset", [1, 2, 3])]


def test_groups_are_named_by_any_field_and_never_averaged_over_another(tmp_path: pathlib.Path) -> None:
  for method in ("sset", "uniform"):
    for rate in ("0.5", "1e-3"):
      store_run(tmp_path, make_config(method, learner__learning_rate=rate), [1])
  assert [label for label, _ in labels(grouped(tmp_path, "learner.learning_rate"))] == [
    "learning_rate=0.001, sset",
    "learning_rate=0.001, uniform",
    "learning_rate=0.5, sset",
    "learning_rate=0.5, uniform",
  ]
  assert [label for label, _ in labels(grouped(tmp_path))] == [
    "sset, learning_rate=0.001",
    "sset, learning_rate=0.5",
    "uniform, learning_rate=0.001",
    "uniform, learning_rate=0.5",
  ]
  assert labels(grouped(tmp_path, "method", "learner.learning_rate"))[0] == ("sset, learning_rate=0.001", [0])


def test_a_label_has_the_fewest_fields_that_tell_its_groups_apart(tmp_path: pathlib.Path) -> None:
  for batch, steps in (("8", "1000"), ("16", "2000"), ("32", "2000")):
    store_run(tmp_path, make_config(learner__batch_size=batch, environment_steps=steps), [1])
  assert {group.label for group in grouped(tmp_path)} == {
    "sset, batch_size=8",
    "sset, batch_size=16",
    "sset, batch_size=32",
  }


def test_each_world_has_groups_of_its_own(tmp_path: pathlib.Path) -> None:
  store_run(tmp_path, make_config(), [1])
  store_run(tmp_path, make_config(environment__arguments__room_size="3"), [1])
  store_run(tmp_path, make_config(evaluator__environment_arguments__room_size="5"), [1])
  store_run(
    tmp_path, make_config(environment__name="two_rooms", events__at_gap__condition="environments.two_rooms:at_gap"), [1]
  )
  worlds = worlds_of(grouped(tmp_path))
  assert sorted(worlds) == [
    "three_rooms",
    "three_rooms, evaluated with room_size=5",
    "three_rooms, room_size=3",
    "two_rooms",
  ]
  assert all(labels(groups) == [("sset", [0])] for groups in worlds.values())


def test_runs_without_a_config_are_grouped_by_name_and_method(tmp_path: pathlib.Path) -> None:
  broken = store_run(tmp_path, make_config(), [1])
  (broken / "config.json").unlink()
  store_experiment(tmp_path / "tiny", [make_result([1.0], "sset")])
  worlds = worlds_of(grouped(tmp_path))
  assert {name: [group.label for group in groups] for name, groups in worlds.items()} == {
    "three_rooms": ["unknown method"],
    "tiny": ["sset"],
  }


def test_only_fields_in_which_groups_differ_are_differences(tmp_path: pathlib.Path) -> None:
  paths = [
    store_run(tmp_path, make_config("sset", learner__learning_rate=rate, seed=rate[-1]), [1]) for rate in ("0.1", "0.2")
  ]
  (paths[0] / "versions.txt").write_text("numpy==1\ngymnasium==2\n")
  (paths[1] / "versions.txt").write_text("numpy==3\ngymnasium==2\n")
  groups = grouped(tmp_path)
  assert [(item.path, item.values) for item in differences(groups)] == [("learner.learning_rate", ("0.1", "0.2"))]
  assert [(item.path, item.values) for item in version_differences(groups)] == [("numpy", ("1", "3"))]
  shared = alike(groups)
  assert shared["learner.batch_size"] == "32"
  fields = {path: as_text(value) for path, value in flat_config(groups[0].runs[0].config)}
  assert set(fields) - set(shared) == {"learner.learning_rate", "seed", "name", "method"}


def test_an_unknown_field_is_refused_with_the_nearest(tmp_path: pathlib.Path) -> None:
  store_run(tmp_path, make_config(), [1])
  with pytest.raises(
    UserError, match=r"No run's config has a field 'learner.learning_rat': did you mean 'learner.learning_rate'\?"
  ):
    grouped(tmp_path, "learner.learning_rat")

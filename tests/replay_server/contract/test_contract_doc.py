"""docs/contract.md lists exactly what the code has."""

import dataclasses
import pathlib
import re

import pytest

from configs import DdpgConfig, LearnerConfig
from configs.refer import ReferConfig
from configs.run import RESERVED_TABLES
from replay_server.contract.layout import LAYOUT_VERSION, PACE, POLICY_COLUMNS, make_row_codec
from replay_server.contract.manifest import Manifest
from replay_server.contract.messages import EpisodeSummary, EvaluationSummary, Heartbeat, Request
from replay_server.process.tables import make_tables
from tests.serving import CODEC, make_config, make_spec

_TEXT = (pathlib.Path(__file__).parents[3] / "docs" / "contract.md").read_text()


def _section(title: str) -> str:
  return _TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def _rows(title: str) -> dict[str, list[str]]:
  """First cell, without back-ticks -> the other cells, of the rows of a section's table."""
  rows = [line.strip("|").split("|") for line in _section(title).splitlines() if line.startswith("|")]
  return {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in rows[2:]}


def test_every_field_of_a_row_is_listed_with_its_dtype_and_shape() -> None:
  listed = _rows("A row")
  fields = {field.name: field for field in make_row_codec(make_spec((3,))).fields}
  assert set(listed) == set(fields)
  for name, (dtype, shape, _) in listed.items():
    assert dtype in (fields[name].dtype, "the spec's")
    assert shape in (str(fields[name].shape), "the spec's")


def test_the_further_field_is_listed_with_its_dtype_and_shape() -> None:
  fields = LearnerConfig(algorithm=DdpgConfig(), refer=ReferConfig(rules="watched")).row_fields((3,))
  listed = {name: (dtype, shape) for name, (dtype, shape, _) in _rows("Further fields of a row").items()}
  assert listed == {"behaviour": ("float32", "(2A,)")}
  assert fields == {"behaviour": ("float32", (2 * 3,))}


def test_every_table_is_listed_with_its_size() -> None:
  listed = _rows("Tables")
  config = make_config({"goal": 10}, [("goal", 5)])
  info = {table.info.name.removeprefix("run/"): table.info for table in make_tables("run", config, CODEC, inline=True)}
  assert {name.removesuffix("` (any name)") for name in listed} == set(info) - {"goal"} | {"event tables"}
  own = {name: cells for name, cells in listed.items() if name in info}
  assert set(own) == {*RESERVED_TABLES}
  for name, (_, size, selector, *_) in own.items():
    if name != PACE:  # Its size follows from the config.
      assert int(size.replace(" ", "")) == info[name].max_size
    assert ("each item read once" in selector) == (info[name].max_times_sampled == 1)


def test_the_policys_columns_are_listed_in_their_order() -> None:
  assert list(_rows("Policy columns")) == sorted(POLICY_COLUMNS)


@pytest.mark.parametrize("message", [Heartbeat, Request, EpisodeSummary, EvaluationSummary])
def test_every_message_is_listed_with_its_fields(message: type) -> None:
  listed = _rows("Messages")
  names = re.findall(r"`(\w+)`", listed[message.__name__][1])
  assert {field.name for field in dataclasses.fields(message)} <= set(names)


def test_the_manifest_and_the_layout_version_are_given() -> None:
  assert set(_rows("Manifest")) == {field.name for field in dataclasses.fields(Manifest)}
  assert f"The layout version is {LAYOUT_VERSION} " in _section("Layout version")

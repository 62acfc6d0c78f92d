"""Commands whose packages an image leaves out."""

import importlib.util

import pytest

from slipstream.main import run


@pytest.mark.parametrize("command", ["report runs", "experiment three_rooms"])
def test_a_command_without_its_packages_says_where_it_runs(command, monkeypatch, capsys):
  find = importlib.util.find_spec
  monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "rliable" else find(name, *rest))
  assert run(command.split()) == 2
  assert capsys.readouterr().err == (
    f"'slipstream {command.split()[0]}' needs rliable, which the images leave out: run it in a clone of Slipstream, on a copy of "
    "the runs.\n"
  )

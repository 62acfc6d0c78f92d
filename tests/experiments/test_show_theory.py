"""`slipstream theory`: the numbers, and what it says that they mean."""

import json

import pytest
from PIL import Image

from slipstream.main import run

# m = 1: over-sampling 2, speed-up 4.
BY_HAND = ("theory", "--eta=0.5", "--tau=50", "--events=1", "--mu=0.005")


def output(capsys, *arguments: str) -> str:
  assert run(arguments) == 0
  # However wide the terminal is.
  return " ".join(capsys.readouterr().out.split())


def test_the_numbers_come_with_what_they_mean(capsys):
  said = output(capsys, *BY_HAND)
  assert "m 1 Eq. 8" in said
  assert "over-sampling 2 x Lemma 1, at least" in said
  assert "speed-up 4 x Theorem 1" in said
  assert "longest history 200 steps" in said
  assert "drawn at least 2 times as often" in said
  assert "falls to 25 %" in said


def test_a_set_up_for_which_nothing_is_proven_is_said_to_be_one(capsys):
  said = output(capsys, "theory", "--eta=0.5", "--tau=200", "--events=2", "--mu=0.01")
  assert "over-sampling none" in said
  assert "speed-up none" in said
  assert "2 event tables with 200 steps for each event can take up 4 times as many transitions as there are" in said
  assert "Shorten the histories to 50 steps or less" in said


def test_a_gain_that_is_hardly_one_is_called_little(capsys):
  assert "That is little" in output(capsys, "theory", "--eta=0.3", "--tau=400", "--events=2", "--mu=0.001")
  assert "That is little" not in output(capsys, *BY_HAND)


def test_json_has_every_number(capsys):
  assert run([*BY_HAND, "--json", "--gamma=0.5", "--accuracy=0.5", "--rarest=0.5"]) == 0
  values = json.loads(capsys.readouterr().out)
  assert values == {
    "eta": 0.5,
    "tau": 50.0,
    "events": 1,
    "mu": 0.005,
    "m": pytest.approx(1),
    "over_sampling": pytest.approx(2),
    "sample_share": pytest.approx(0.25),
    "longest_history": pytest.approx(200),
    "speed_up": pytest.approx(4),
    "samples": pytest.approx(295269, rel=1e-5),  # 26624 * 4 * ln 16.
    "samples_with_events": pytest.approx(295269 / 4, rel=1e-5),
  }


def test_json_has_null_for_what_is_not_proven(capsys):
  assert run(["theory", "--eta=0.5", "--tau=201", "--mu=0.005", "--json", "--gamma=0.5", "--rarest=0.5"]) == 0
  values = json.loads(capsys.readouterr().out)
  assert [values[name] for name in ("over_sampling", "sample_share", "speed_up", "samples_with_events")] == [None] * 4


@pytest.mark.parametrize("tau", [1, 50, 300])
@pytest.mark.parametrize("mu", [0.005, 0.9])
def test_the_picture_is_drawn_in_every_regime(capsys, tmp_path, tau, mu):
  path = tmp_path / "theory.png"
  said = output(capsys, "theory", "--eta=0.5", f"--tau={tau}", "--events=2", f"--mu={mu}", f"--plot={path}")
  assert f"Picture: {path}" in said
  with Image.open(path) as picture:
    assert picture.size == (1050, 600)
    colours = picture.convert("RGB").getcolors(1 << 20)
  assert colours is not None
  assert len(colours) > 10

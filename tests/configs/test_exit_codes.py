"""The table of exit codes, in code and in the documentation."""

import pathlib
import re

import pytest

from configs.exit_codes import ExitCode, is_restarted

USAGE = pathlib.Path(__file__).parents[2] / "docs" / "usage.md"


def test_usage_shows_the_same_codes_and_says_of_each_whether_to_restart():
  _, _, section = USAGE.read_text().partition("\n## Exit codes\n")
  rows = re.findall(r"^\| (\d+) \| .+ \| (yes|no) \|$", section.partition("\n## ")[0], re.MULTILINE)
  assert {int(code): word == "yes" for code, word in rows} == {int(code): code.is_restarted for code in ExitCode}


@pytest.mark.parametrize(("code", "restarted"), [(139, True), (134, True), (130, False), (5, False)])
def test_a_crash_is_a_reason_to_start_again(code, restarted):
  assert is_restarted(code) == restarted


def test_codes_of_signals_are_a_shells():
  assert [code - 128 for code in ExitCode if code > 128] == [2, 9, 13, 15]

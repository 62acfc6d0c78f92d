"""`python -m consoles`."""

import subprocess
import sys

import pytest

from consoles.__main__ import main
from tests.consoles.serving import HERE, ROOT, SECONDS


@pytest.mark.parametrize(
  ("flags", "sentence"),
  [
    ([], "No --world is given: name a built-in world, a gymnasium id or module:function."),
    (
      ["--prt=1"],
      "The flags cannot be read (unrecognized arguments: --prt=1): see 'python -m consoles --help'.",
    ),
    (
      ["--world=slingshot", "--port=x"],
      "The flags cannot be read (argument --port: invalid int value: 'x'): see 'python -m consoles --help'.",
    ),
    (["--world=slingshto"], "There is no environment 'slingshto': did you mean 'slingshot'?"),
    (
      [f"--world={HERE}:Counter", '--options={"fails_at": 1}'],
      f"The world '{HERE}:Counter' raised RuntimeError (the disk is full) while it was tried: fix it.",
    ),
  ],
)
def test_a_mistake_ends_with_2_and_one_sentence(
  flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
  assert main(flags) == 2
  assert capsys.readouterr().err == f"{sentence}\n"


def test_the_traceback_of_a_world_is_shown_if_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
  assert main([f"--world={HERE}:Counter", '--options={"fails_at": 1}', "--verbose"]) == 2
  assert "RuntimeError: the disk is full\nThe world" in capsys.readouterr().err


# Its grace is shorter than a user's, so that the test is.
_IMPATIENT = f"""
import consoles.process
from consoles.__main__ import main
consoles.process._GRACE_SECONDS = 0.5
raise SystemExit(main(["--world={HERE}:Clinging"]))
"""


def test_a_console_whose_world_hangs_in_close_ends_all_the_same_and_says_where() -> None:
  with subprocess.Popen(
    [sys.executable, "-c", _IMPATIENT], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  ) as process:
    assert process.stdout is not None
    assert "is ready" in process.stdout.readline()
    process.terminate()
    try:
      _, said = process.communicate(timeout=SECONDS)
    finally:
      process.kill()
  assert process.returncode == 143
  assert "in close" in said
  assert said.endswith(
    f"The console of '{HERE}:Clinging' leaves, and its world has not closed within 0.5 s, so the console ends without that.\n"
  )

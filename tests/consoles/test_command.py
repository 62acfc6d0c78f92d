"""`python -m consoles`."""

import pytest

from consoles.__main__ import main
from tests.consoles.serving import HERE


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

"""Every mistake on the command line: its exit code, and the one sentence that says what is wrong and what to do.

The table is in `tests/slipstream/mistakes/`, a module for each kind of mistake. In it, words in capitals stand for what differs
from one run of the tests to the next: TMP for the working folder, FINISHED for the id of a run there, the names of servers
(`places.py`) for their ports. To add a mistake, write its command line and its sentence, and what it needs in `places.py`. As in
a shell, NAME=value before the command sets an environment variable.
"""

import itertools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from consoles.seat import TIMEOUTS
from slipstream.commands import COMMANDS, flags, status
from slipstream.main import run
from tests.slipstream.mistakes import comparisons, configs, consoles, overview, runs, servers, studies, tls, worlds
from tests.slipstream.mistakes.places import Places, made_places

ROWS = (
  *overview.ROWS,
  *configs.ROWS,
  *worlds.ROWS,
  *runs.ROWS,
  *servers.ROWS,
  *studies.ROWS,
  *comparisons.ROWS,
  *tls.ROWS,
  *consoles.ROWS,
)
# What a real process says; of each kind one.
_IN_A_PROCESS = (
  "train --confg=three_rooms",
  "train --config=three_rooms --config.environment_steps=9223372036854775808",
  "train --resume=logs_is_a_file/FINISHED",
  "evaluate --checkpoint=policy.npz --episodes=0 --export=file",
  "status --server=localhost:FOREIGN",
  "learn --server=localhost:INLINE",
)
_ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(name="places", scope="module")
def _places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
  with made_places(tmp_path_factory.mktemp("places")) as places:
    yield places


@pytest.fixture(autouse=True)
def _waits_are_short_and_commands_run_there(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.chdir(places.folder)
  for module, name in ((flags, "SERVER_TIMEOUT_SECONDS"), (status, "CONNECT_SECONDS")):
    monkeypatch.setattr(module, name, 0.2)
  monkeypatch.setattr("consoles.client.TIMEOUTS", {**TIMEOUTS, "start": 5.0})


def _split(command: str) -> tuple[dict[str, str], list[str]]:
  """The environment variables before a command, and its words."""
  words = shlex.split(command)
  set_before = list(itertools.takewhile(lambda word: "=" in word, words))
  return dict(word.split("=", 1) for word in set_before), words[len(set_before) :]


def _state(places: Places) -> tuple[list[pathlib.Path], list[bytes]]:
  """What no mistake may change: it begins no run, leaves no file, and a run that is not resumed after all keeps its config.

  Only a world that fails later does so in a run of its own.
  """
  found = [*places.folder.iterdir(), *places.folder.glob("runs/three_rooms/*")]
  return sorted(found), [
    path.read_bytes() for path in sorted(places.folder.glob(f"**/{places.names['FINISHED']}/config.json"))
  ]


@pytest.mark.parametrize(("command", "sentence"), ROWS, ids=[command for command, _ in ROWS])
def test_a_mistake_ends_with_2_and_one_sentence(
  places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, sentence: str
) -> None:
  if "tls/" in command and shutil.which("openssl") is None:
    pytest.skip("there is no command openssl")
  before = _state(places)
  variables, words = _split(places.fill_in(command))
  for name, value in variables.items():
    monkeypatch.setenv(name, value)
  assert run(words) == 2
  said = capsys.readouterr()
  assert places.take_out(said.err) == f"{sentence}\n"
  assert "Traceback" not in said.out
  assert _state(places) == before


@pytest.mark.parametrize(("command", "finding"), servers.FINDINGS)
def test_the_doctor_ends_with_2_and_names_what_is_wrong(
  places: Places, capsys: pytest.CaptureFixture[str], command: str, finding: str
) -> None:
  assert run(shlex.split(places.fill_in(command))) == 2
  said = capsys.readouterr()
  assert said.err == ""
  assert f"  wrong {finding}" in places.take_out(said.out).splitlines()


@pytest.mark.parametrize("command", _IN_A_PROCESS)
def test_a_process_ends_and_says_the_same(places: Places, command: str) -> None:
  arguments = shlex.split(places.fill_in(command))
  environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
  done = subprocess.run(
    [sys.executable, "-m", "slipstream", *arguments],
    env=environment,
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  assert (done.returncode, places.take_out(done.stderr)) == (2, f"{dict(ROWS)[command]}\n")


def test_the_table_is_complete_and_every_sentence_says_what_to_do() -> None:
  assert len(ROWS) >= 120
  assert len({command for command, _ in ROWS}) == len(ROWS)
  named = {_split(command)[1][0] for command, _ in itertools.chain(ROWS, servers.FINDINGS)}
  assert set(COMMANDS) <= named
  assert [sentence for _, sentence in ROWS if sentence[-1] not in ".?)" or "\n" in sentence] == []

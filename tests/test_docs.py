"""What the documentation shows exists: commands, flags, config keys, files."""

import ast
import dataclasses
import pathlib
import re
import shlex

import pytest

from configs import RunConfig, load_config, override
from configs.algorithms import ALGORITHMS
from configs.migration import MOVED_KEYS
from slipstream.commands import COMMANDS

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "examples").glob("**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
CONFIG_KEY = re.compile(r"(?:environment|replay|network|actor|learner|evaluator)(?:\.[a-z_]+)+")
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
ROOM_FILE = re.compile(rf"(?:{'|'.join([*ROOMS, 'tests', 'examples'])})/[\w/]*[\w/](?:\.py)?")
# Such as `learner/refer_far_share`, which is no file.
RESULT_COLUMNS = {
  column for path in (ROOT / "docs/results").glob("*.csv") for column in path.read_text().partition("\n")[0].split(",")
}
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _name(page):
  return str(page.relative_to(ROOT))


def _blocks(page, *languages):
  return [text for language, text in FENCE.findall(page.read_text()) if language in languages]


def _commands(program):
  """(page, command line) of every line of a shell block that runs `program`."""
  for page in PAGES:
    for block in _blocks(page, "sh", "bash", "shell", "console"):
      for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words and words[0].removeprefix(".venv/bin/") == program:
          yield pytest.param(words[1:], id=f"{_name(page)}: {' '.join(words)}")


def _slug(heading):
  """The anchor that GitHub gives a heading."""
  return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("words", list(_commands("slipstream")))
def test_a_command_that_is_shown_is_accepted(words, monkeypatch):
  monkeypatch.chdir(ROOT)
  arguments = COMMANDS[words[0]].parse(words[1:])
  values = arguments.flags
  for folder in filter(None, str(values["pythonpath"].value if "pythonpath" in values else "").split(":")):
    assert pathlib.Path(folder).is_dir()
  if "config" in values:
    # A resumed run's config is not here; every preset has the keys that are shown.
    override(load_config(values.config or "three_rooms"), arguments.overrides)


@pytest.mark.parametrize("words", list(_commands("make")))
def test_a_make_target_that_is_shown_exists(words):
  assert [word for word in words if "=" not in word and word not in MAKE_TARGETS] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_resolve(page):
  broken = []
  for link in LINK.findall(page.read_text()):
    if re.match(r"[a-z]+:", link):
      continue
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
      broken.append(link)
    elif anchor:
      headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
      if anchor not in map(_slug, headings):
        broken.append(link)
  assert broken == []


def _config_keys():
  """Every dotted key of a config, whatever its algorithm, with the keys of parts."""
  keys = set()

  def collect(part, prefix):
    for field in dataclasses.fields(part):
      keys.add(prefix + field.name)
      value = getattr(part, field.name)
      if dataclasses.is_dataclass(value):
        collect(value, f"{prefix}{field.name}.")

  config = RunConfig()
  collect(config, "")
  for algorithm in ALGORITHMS.values():
    collect(algorithm(), "learner.algorithm.")
  return keys


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_config_keys_that_are_named_exist(page):
  known = _config_keys() | set(MOVED_KEYS)
  named = {code.partition("=")[0] for code in CODE.findall(page.read_text())}
  assert [key for key in sorted(named) if CONFIG_KEY.fullmatch(key) and key not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_of_rooms_that_are_named_exist(page):
  named = {code for code in CODE.findall(page.read_text()) if ROOM_FILE.fullmatch(code)} - RESULT_COLUMNS
  assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_that_is_shown_is_python(page):
  for block in _blocks(page, "python"):
    ast.parse(block)


def test_every_command_has_been_shown():
  assert {param.values[0][0] for param in _commands("slipstream")} >= set(COMMANDS)


def test_pictures_are_small():
  assert [path.name for path in (ROOT / "docs" / "images").iterdir() if path.stat().st_size > 100_000] == []

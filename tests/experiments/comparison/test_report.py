"""`slipstream report`: the page, and what is refused."""

import base64
import csv
import html.parser
import json
import pathlib
import re
import xml.etree.ElementTree as ET

import pytest
from PIL import Image

from experiments.comparison import finding
from experiments.comparison import report as comparison
from launch.stored_run import StoredRun
from slipstream.main import run
from tests.experiments.comparison.storing import make_config, store_experiment, store_run
from tests.experiments.tiny import make_result

HOSTILE = '<script>alert("&")</script>'


class Page(html.parser.HTMLParser):
  """What a browser would find on a page."""

  def __init__(self, text: str):
    super().__init__()
    self.tags: list[tuple[str, dict[str, str | None]]] = []
    self.words: list[str] = []
    self.source = text
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_data(self, data):
    self.words.append(data)

  @property
  def text(self) -> str:
    return " ".join("".join(self.words).split())

  def addresses(self) -> list[str]:
    names = ("src", "srcset", "href", "data", "poster")
    return [value for _, attributes in self.tags for name in names if (value := attributes.get(name))]


def store_runs(root: pathlib.Path) -> pathlib.Path:
  """Two methods with two seeds each, a killed run, and a picture and an animation of a greedy path."""
  for seed in (0, 1):
    store_run(root, make_config("uniform", seed=str(seed)), [-9, -8, -7, -6 - seed])
    path = store_run(root, make_config("sset", seed=str(seed)), [-9, -5, 1, 2 + seed])
  store_run(root, make_config("sset", seed="2"), [-9], "running")
  frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
  frames[0].save(path / "greedy_path.png")
  (path / "videos").mkdir()
  frames[0].save(path / "videos" / "greedy_path.gif", save_all=True, append_images=frames[1:])
  return root


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
  return store_runs(tmp_path / "runs")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
  """The page of these runs, which takes seconds to make."""
  folder = tmp_path_factory.mktemp("page")
  assert run(("report", str(store_runs(folder / "runs")), f"--out={folder / 'out'}")) == 0
  return Page((folder / "out" / "report.html").read_text())


def report(capsys: pytest.CaptureFixture[str], out: pathlib.Path, *arguments: str) -> Page:
  assert run(("report", *arguments, f"--out={out}")) == 0
  output = capsys.readouterr()
  assert output.err == ""
  assert f"Written: {out / 'report.html'}" in output.out
  return Page((out / "report.html").read_text())


def test_the_page_needs_nothing_but_itself(page: Page) -> None:
  addresses = page.addresses()
  assert addresses
  assert all(address.startswith("data:") for address in addresses)
  assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object"} == set()
  assert "url(" not in page.source
  assert "@import" not in page.source


def test_the_pictures_are_drawn_for_light_dark_wide_and_narrow_screens(page: Page) -> None:
  drawn = [address for address in page.addresses() if address.startswith("data:image/svg+xml")]
  assert len(drawn) == 8
  texts = [base64.b64decode(address.partition(",")[2]).decode() for address in drawn]
  for text in texts:
    words = [node.text for node in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert {"uniform", "sset"} <= set(words)
  assert "#f2f4f5" in texts[0]  # Black would not be seen on a dark page.
  assert "#000000" in texts[2]


def test_the_page_tells_groups_numbers_runs_and_differences(page: Page) -> None:
  assert (
    "5 runs in 2 groups, compared by return of evaluations over environment steps. 4 exhausted, 1 killed." in page.text
  )
  assert "(1 killed): they count in no mean and no table." in page.text
  assert re.search(r"sset2\s?2\.5\[", page.text)  # Two runs, and the mean of their levels.
  assert "replay.tables.done.probability" in page.text
  assert "What is alike:" in page.text
  assert "Make it again: slipstream report " in page.text


def test_a_greedy_path_moves_and_has_a_still_picture_for_paper(page: Page) -> None:
  classes = {str(attributes["src"])[:14]: attributes.get("class") for tag, attributes in page.tags if tag == "img"}
  assert classes["data:image/gif"] == "moving"
  assert classes["data:image/png"] == "still"


def test_what_files_hold_is_text_on_the_page(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  path = next(root.glob("*/*/config.json"))
  config = json.loads(path.read_text())
  config["name"] = config["environment"]["name"] = HOSTILE
  config["events"] = {HOSTILE: HOSTILE + "$x_$ \ud800"}
  config["method"] = HOSTILE
  path.write_text(json.dumps(config))
  (path.parent / "versions.txt").write_text(f"{HOSTILE}=={HOSTILE}\n")
  page = report(capsys, tmp_path / "out", str(path.parent))
  assert "script" not in {tag for tag, _ in page.tags}
  assert HOSTILE in page.text


def test_curves_are_written_as_numbers_too(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  report(capsys, tmp_path / "out", str(root), "--x=gradient_steps", "--curve=train_return")
  with (tmp_path / "out" / "curves.csv").open() as file:
    rows = [row for row in csv.DictReader(file) if row["group"] == "uniform"]
  assert [(row["gradient_steps"], row["train_return"], row["runs"]) for row in rows] == [
    ("10", "-10", "2"),
    ("20", "-9", "2"),
    ("30", "-8", "2"),
    ("40", "-7.5", "2"),
  ]
  with Image.open(tmp_path / "out" / "curves.png") as picture:
    assert picture.format == "PNG"


def test_a_world_whose_runs_have_no_points_has_a_sentence_in_place_of_pictures(
  capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
  store_run(tmp_path / "runs", make_config(), [1, 2])
  store_run(tmp_path / "runs", make_config(environment__arguments__room_size="3"), [])
  unfinished = store_run(tmp_path / "runs", make_config(environment__arguments__room_size="4"), [1, 2], "running")
  store_run(tmp_path / "runs", make_config(environment__arguments__room_size="4", seed="1"), [])
  page = report(capsys, tmp_path / "out", str(tmp_path / "runs"))
  assert "4 runs in 3 groups" in page.text
  assert page.text.count("No run in this world has any return of evaluations yet.") == 1
  assert page.text.count("Where they end, in numbers") == 1
  assert unfinished.name in page.text


def test_experiments_and_single_runs_are_compared_by_any_field(
  capsys: pytest.CaptureFixture[str], root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  store_experiment(tmp_path / "tiny", [make_result([-1.0, 2.0], "sset")])
  one = next(root.glob("*/*"))
  page = report(
    capsys, tmp_path / "out", str(one), str(tmp_path / "tiny"), "--by=seed,method", "--reference=seed=0, sset"
  )
  assert "three_rooms · tiny" in page.text
  assert "seed=0, sset" in page.text
  assert "No run in this world has a config that can be read." in page.text


def test_the_config_of_an_experiments_run_is_found_by_its_digest(
  capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
  results = pathlib.Path(__file__).resolve().parents[3] / "docs" / "results"
  page = report(
    capsys,
    tmp_path / "out",
    str(results),
    "--filter=name=pendulum",
    "--filter=method=sac",
    "--by=learner.algorithm.name",
  )
  assert "Pendulum-v1" in page.text
  assert "name=sac" in page.text


def test_the_configs_of_runs_that_are_not_shown_are_not_looked_for(
  root: pathlib.Path, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  looked_for = []

  def with_config(run: StoredRun) -> StoredRun:
    looked_for.append((run.method, run.seed))
    return finding.with_config(run)

  monkeypatch.setattr(comparison, "with_config", with_config)
  filters = ["--filter=method=sset", "--filter=config.seed<2"]
  report(capsys, tmp_path / "out", str(root), *filters)
  assert sorted(looked_for) == [("sset", 0), ("sset", 1), ("sset", 2)]


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    ([], "No run directory is given: write 'slipstream report runs', or name the runs to compare."),
    (["nowhere"], "There is no folder nowhere: name one that holds runs, such as the --run_root of 'train'."),
    (["{root}", "{empty}"], "There are no runs in {empty}: name a run directory, or a folder that holds some."),
    (["{root}", "--curve=eval_retrun"], "No run has a curve 'eval_retrun': did you mean 'eval_return'?"),
    (["{root}", "--curve=x"], "No run has a curve 'x': there are train_return, eval_return, eval_solved."),
    (["{root}", "--x=seconds"], "--x=seconds is no axis: there are environment_steps, gradient_steps."),
    (
      ["{root}", "--by=learning_rate"],
      "No run's config has a field 'learning_rate': did you mean 'learner.learning_rate'?",
    ),
    (["{root}", "--reference=unifrom"], "--reference=unifrom is no group: did you mean 'uniform'?"),
    (["{root}", "--filter=seed=9"], "No run meets the filter: see the runs' columns with 'slipstream runs'."),
    (["{root}", "--filter=sed=9"], "Runs have no column 'sed': did you mean 'seed'?"),
    (
      ["{root}", "--out={root}/file/report"],
      "The folder {root}/file/report cannot be written (Not a directory): choose another with --out.",
    ),
    (
      ["{root}", "--out=/proc/report"],
      "The folder /proc/report cannot be written (No such file or directory): choose another with --out.",
    ),
  ],
)
def test_a_mistake_is_one_sentence(
  capsys: pytest.CaptureFixture[str],
  root: pathlib.Path,
  tmp_path_factory: pytest.TempPathFactory,
  monkeypatch: pytest.MonkeyPatch,
  arguments: list[str],
  sentence: str,
) -> None:
  empty = tmp_path_factory.mktemp("empty")
  (root / "file").touch()
  monkeypatch.chdir(empty)
  assert run(("report", *(word.format(root=root, empty=empty) for word in arguments))) == 2
  output = capsys.readouterr()
  assert output.out == ""
  assert output.err.rstrip("\n") == sentence.format(root=root, empty=empty)
  assert not list(empty.iterdir())

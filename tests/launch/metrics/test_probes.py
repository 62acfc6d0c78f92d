"""What roles that run tell: the catalogue's metrics, whether their loops move, whether they are ready."""

import contextlib
import dataclasses
import functools
import pathlib
import re
import threading
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from configs import EnvironmentConfig, RunConfig
from environments.trust import Trust
from launch import roles
from launch.endpoint import Endpoint
from launch.metrics.catalogue import METRICS, ROLES
from launch.metrics.exporter import Exporter
from launch.run_directory import RunDirectory
from replay_server.process import keeper as keeper_module
from replay_server.process.keeper import Keeper
from replay_server.process.server import ReplayServer
from tests.actors.running import SPEC, TIME_LIMIT, make_run, with_goal
from tests.launch.metrics import hanging_world
from tests.launch.metrics.running import get, kept_in_thread, role_in_thread, run_folder
from tests.serving import serving, wait_for

_DOC = (pathlib.Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
# TensorFlow is imported and its graph built on machines that are busy with other tests.
_SECONDS = 120.0


def _config() -> RunConfig:
  run = with_goal(make_run(random_steps=20))
  world = dataclasses.replace(run.environment, name="tests.measured_world:Measured")
  replay = dataclasses.replace(run.replay, environment_steps_per_update=4.0)
  return dataclasses.replace(
    run,
    environment=world,
    replay=replay,
    learner=dataclasses.replace(run.learner, updates_per_block=4, publish_period_updates=8),
    evaluator=dataclasses.replace(run.evaluator, solved_evaluations=0),
    environment_steps=10_000_000,
  )


def _scrape(exporter: Exporter) -> Mapping[str, list[tuple[Mapping[str, str], float]]]:
  """Name of a metric -> labels and value of each of its samples."""
  samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
  for family in text_string_to_metric_families(get(exporter, "/metrics")[1]):
    for sample in family.samples:
      samples.setdefault(sample.name, []).append((sample.labels, sample.value))
  return samples


def _expected(role: str) -> set[str]:
  return {name for name, metric in METRICS.items() if role in metric.roles}


@contextlib.contextmanager
def _acting(server: ReplayServer, patience_seconds: float = 60.0) -> Iterator[Exporter]:
  trust = Trust((), ("tests",))
  act = functools.partial(roles.act, endpoint=Endpoint(server.address), index=0, trust=trust)
  with role_in_thread("actor", "actor_0", act, patience_seconds) as exporter:
    yield exporter


@contextlib.contextmanager
def _learning(server: ReplayServer, folder: pathlib.Path, patience_seconds: float = 60.0) -> Iterator[Exporter]:
  learn = functools.partial(
    roles.learn, endpoint=Endpoint(server.address), run_root=folder, run=RunDirectory(run_folder(folder))
  )
  with role_in_thread("learner", "learner", learn, patience_seconds) as exporter:
    yield exporter


def test_names_units_and_kinds_follow_prometheus() -> None:
  for name, metric in METRICS.items():
    assert re.fullmatch(r"slipstream_[a-z]+(_[a-z]+)*", name)
    assert (metric.kind == "counter") == name.endswith("_total")
    assert (metric.unit in ("seconds", "UNIX time")) == ("_seconds" in name)
    assert metric.meaning.endswith(".")


def test_the_page_lists_every_metric_with_its_kind_unit_labels_and_meaning() -> None:
  rows = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in _DOC.splitlines()
    if line.startswith("| `slipstream_")
  ]
  listed = {cells[0].strip("`"): cells[1:] for cells in rows}
  assert len(listed) == len(rows)
  assert listed == {
    name: [
      metric.kind,
      metric.unit or "0 or 1",
      ", ".join(f"`{label}`" for label in metric.labels),
      "all" if metric.roles == ROLES else ", ".join(metric.roles),
      metric.meaning,
    ]
    for name, metric in METRICS.items()
  }


def test_a_world_that_hangs_is_told_and_one_that_goes_on_is_well_again(tmp_path: pathlib.Path) -> None:
  world = EnvironmentConfig(
    "tests.launch.metrics.hanging_world:Hanging", {"room_size": 2, "time_limit": TIME_LIMIT}, timeout_seconds=0.5
  )
  config = dataclasses.replace(make_run(random_steps=1_000_000), environment=world)
  with (
    serving(config, tmp_path, SPEC) as server,
    contextlib.closing(Keeper(server, tmp_path)) as keeper,
    kept_in_thread(server, keeper),
    _acting(server) as exporter,
  ):
    wait_for(lambda: get(exporter, "/readyz")[0] == 200, _SECONDS)
    hanging_world.MAY_STEP.clear()
    try:
      wait_for(lambda: get(exporter, "/healthz")[0] == 503, _SECONDS)
      sentence = get(exporter, "/healthz")[1]
      assert re.match(
        r"actor_0 has been in step of the environment .*Hanging' for \d+ s, longer than the 0.5 s of", sentence
      )
      assert _scrape(exporter)["slipstream_role_healthy"][0][1] == 0
      waits = {labels["on"]: seconds for labels, seconds in _scrape(exporter)["slipstream_role_wait_seconds"]}
      assert waits["world"] > 0.5
    finally:
      hanging_world.MAY_STEP.set()
    wait_for(lambda: get(exporter, "/healthz")[0] == 200, _SECONDS)


class _HangingSink:
  """A place for the run's numbers that takes none while a test wants it."""

  def __init__(self) -> None:
    self.may_write = threading.Event()

  def write(self, tags: Mapping[str, float], step: int) -> None:
    self.may_write.wait()

  def close(self) -> None:
    pass


def test_a_server_whose_loop_hangs_is_told(tmp_path: pathlib.Path) -> None:
  sink = _HangingSink()
  with (
    serving(make_run(), tmp_path, SPEC) as server,
    contextlib.closing(Keeper(server, tmp_path, [sink])) as keeper,
    kept_in_thread(server, keeper, patience_seconds=1.0) as exporter,
  ):
    try:
      wait_for(lambda: get(exporter, "/healthz")[0] == 503, _SECONDS)
      sentence = get(exporter, "/healthz")[1]
      assert re.match(
        r"The loop of the server has not gone round for \d s, and may take 1 s: it hangs, so start", sentence
      )
    finally:
      sink.may_write.set()
    wait_for(lambda: get(exporter, "/healthz")[0] == 200, _SECONDS)


def test_a_learner_that_waits_for_rows_is_alive_and_says_on_whom_it_waits(tmp_path: pathlib.Path) -> None:
  config = make_run()
  with (
    serving(config, tmp_path, SPEC) as server,
    contextlib.closing(Keeper(server, tmp_path)) as keeper,
    kept_in_thread(server, keeper),
    _learning(server, tmp_path, patience_seconds=2.0) as exporter,
  ):

    def waits() -> Mapping[str, float]:
      return {labels["on"]: value for labels, value in _scrape(exporter).get("slipstream_role_wait_seconds", [])}

    wait_for(lambda: waits().get("workers", 0) > 4.0, _SECONDS)
    assert exporter.progress.allowed_seconds == 2.0
    assert get(exporter, "/healthz")[0] == 200
    assert get(exporter, "/readyz")[0] == 200

    def wait_in_status() -> bool:
      learner = next((role for role in keeper.status.roles if role.role == "learner"), None) if keeper.status else None
      return learner is not None and learner.wait is not None and learner.wait.whom == "workers"

    wait_for(wait_in_status)
    assert keeper.status is not None
    (wait,) = [role.wait for role in keeper.status.roles]
    assert wait is not None
    assert wait.until == "table default has 1 transitions (0 now)"
    assert wait.seconds > 3.0


def test_a_worker_whose_server_is_lost_answers_as_before_and_is_not_ready(tmp_path: pathlib.Path) -> None:
  config = make_run(random_steps=1_000_000)
  with contextlib.ExitStack() as stack:
    server = stack.enter_context(serving(config, tmp_path, SPEC))
    with contextlib.closing(Keeper(server, tmp_path)) as keeper:
      exporter = stack.enter_context(_acting(server))
      keeper.tick()
      wait_for(lambda: get(exporter, "/readyz")[0] == 200, _SECONDS)
    server.stop()
    wait_for(lambda: get(exporter, "/readyz")[0] == 503, _SECONDS)
    sentence = get(exporter, "/readyz")[1]
    assert re.match(
      r"The replay server at localhost:\d+ has not answered actor_0 for \d+ s: actor_0 waits until it does", sentence
    )
    assert get(exporter, "/healthz")[0] == 200
    assert _scrape(exporter)["slipstream_role_server_silence_seconds"][0][1] > 3


@pytest.fixture(name="exporters", scope="module")
def _exporters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Exporter]]:
  """The exporters of a run's four roles, once each tells all that it can.

  The run goes on until the last test of this module, so those that need it come last.
  """
  folder = tmp_path_factory.mktemp("run")
  with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
    patch.setattr(keeper_module, "FIRST_CHECKPOINT_SECONDS", 1.0)
    server = stack.enter_context(serving(_config(), folder, SPEC))
    keeper = stack.enter_context(contextlib.closing(Keeper(server, run_folder(folder))))
    evaluate = functools.partial(roles.evaluate, endpoint=Endpoint(server.address), trust=Trust((), ("tests",)))
    exporters = {
      "server": stack.enter_context(kept_in_thread(server, keeper)),
      "learner": stack.enter_context(_learning(server, folder)),
      "actor": stack.enter_context(_acting(server)),
      "evaluator": stack.enter_context(role_in_thread("evaluator", "evaluator", evaluate)),
    }
    wait_for(lambda: all(_expected(role) <= set(_scrape(exporter)) for role, exporter in exporters.items()), _SECONDS)
    yield exporters


@pytest.mark.parametrize("role", ROLES)
def test_a_role_tells_what_the_catalogue_says_and_nothing_else(exporters: Mapping[str, Exporter], role: str) -> None:
  scraped = _scrape(exporters[role])
  assert {name for name in scraped if not name.startswith("process_")} == _expected(role)
  for name in _expected(role):
    assert {frozenset(labels) for labels, _ in scraped[name]} == {frozenset(METRICS[name].labels)}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_whose_loop_moves_is_healthy_and_ready(exporters: Mapping[str, Exporter], role: str) -> None:
  assert get(exporters[role], "/healthz")[0] == 200
  wait_for(lambda: get(exporters[role], "/readyz")[0] == 200, _SECONDS)


def test_counters_count_and_gauges_are_as_they_are(exporters: Mapping[str, Exporter]) -> None:
  def value(of: str, name: str, **labels: str) -> float:
    return next(value for found, value in _scrape(exporters[of])[name] if labels.items() <= found.items())

  counts = (
    ("learner", "slipstream_learner_gradient_steps_total"),
    ("actor", "slipstream_actor_environment_steps_total"),
    ("server", "slipstream_run_environment_steps"),
  )
  before = [value(*count) for count in counts]
  wait_for(lambda: all(value(*count) > first for count, first in zip(counts, before, strict=True)), _SECONDS)
  steps = value("learner", "slipstream_learner_gradient_steps_total")
  assert value("learner", "slipstream_learner_rows_total") >= steps * _config().learner.batch_size
  assert value("server", "slipstream_table_capacity_rows", table="default") == 5_000
  assert value("server", "slipstream_run_phase", phase="running") == 1
  assert value("server", "slipstream_run_processes", role="actor") == 1
  assert 0 < value("evaluator", "slipstream_evaluator_length_steps") <= TIME_LIMIT
  # A worker in so small a world is held back until the learner has caught up.
  wait_for(lambda: value("actor", "slipstream_actor_wait_seconds_total", on="learner") > 0, _SECONDS)
  limiter = "slipstream_table_limiter_wait_seconds_total"
  wait_for(lambda: any(seconds > 0 for _, seconds in _scrape(exporters["server"])[limiter]), _SECONDS)

"""Other places for a run's numbers, beside TensorBoard: Weights & Biases and MLflow, through their own clients.

They are optional and not installed with Slipstream. Each is written to by a thread of its own, so that a service that is slow or
away never holds up the server.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from configs import RunConfig, UserError, to_dict

# Numbers that wait for a service that is away; then the newest are left out.
MOST_WAITING = 10_000
# For the last numbers, when the run ends.
CLOSE_SECONDS = 20.0

# Flag -> the package with its client.
PACKAGES: Mapping[str, str] = {"wandb": "wandb", "mlflow": "mlflow-skinny"}

_CONNECT_SECONDS = 30
_MOST_PARAMETERS = 100  # That MLflow takes at once.
_MOST_CHARACTERS = 500  # Of a parameter's value in MLflow.


class Sink(Protocol):
  """A place for a run's numbers."""

  def write(self, tags: Mapping[str, float], step: int) -> None:
    """Adds a point at the environment step `step` for every tag."""

  def close(self) -> None:
    """Writes what still waits, and closes the sink."""


class Client(Protocol):
  """A service's client; any method may raise anything, and may wait."""

  def log(self, tags: Mapping[str, float], step: int, seconds: float) -> None:
    """Sends a point at `step` for every tag, measured at the UNIX time `seconds`."""

  def close(self) -> None:
    """Ends the run."""


class QueuedSink:
  """A sink that a thread empties into a client."""

  def __init__(self, name: str, client: Client, most_waiting: int = MOST_WAITING, close_seconds: float = CLOSE_SECONDS):
    """Starts the thread.

    Args:
      name: of the service, for messages.
      client: of the service.
      most_waiting: points that wait; later ones are left out until there is room.
      close_seconds: how long `close` waits for them to be sent.
    """
    self._name = name
    self._client = client
    self._close_seconds = close_seconds
    self._waiting: queue.Queue[tuple[Mapping[str, float], int, float] | None] = queue.Queue(most_waiting)
    self._failing = False
    self._thread = threading.Thread(target=self._run, name=f"{name}-sink", daemon=True)
    self._thread.start()

  def write(self, tags: Mapping[str, float], step: int) -> None:
    """Adds a point for every tag; returns at once."""
    with contextlib.suppress(queue.Full):  # The thread has said why.
      self._waiting.put_nowait((tags, step, time.time()))

  def close(self) -> None:
    """Sends what waits, but gives up after a time; may be called twice."""
    deadline = time.monotonic() + self._close_seconds
    with contextlib.suppress(queue.Full):
      self._waiting.put(None, timeout=self._close_seconds)
    self._thread.join(max(0.0, deadline - time.monotonic()))
    if self._thread.is_alive():
      _log(f"{self._name} did not take the last numbers within {self._close_seconds:g} s; they are in metrics.csv.")

  def _run(self) -> None:
    while (point := self._waiting.get()) is not None:
      self._attempt(lambda point=point: self._client.log(*point))  # type: ignore[misc]  # mypy cannot infer a default's type.
    self._attempt(self._client.close)

  def _attempt(self, call: Callable[[], object]) -> None:
    try:
      call()
    except Exception as error:  # Each client has errors of its own, and none may end the run.
      if not self._failing:
        _log(f"{self._name} does not take the run's numbers ({_first_line(error)}): the run goes on, see metrics.csv.")
      self._failing = True
      return
    if self._failing:
      _log(f"{self._name} takes the run's numbers again.")
    self._failing = False


class WandbClient:
  """A run of Weights & Biases; the environment variables WANDB_* are those of its client."""

  def __init__(self, run_id: str, config: RunConfig, run_dir: pathlib.Path):
    """Begins the run, or continues it if the service has it. Its files lie in `wandb/` of the run directory."""
    import wandb

    offline = os.environ.get("WANDB_MODE") in ("offline", "dryrun")
    with _no_questions():
      self._run = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or config.name,
        id=run_id,
        name=run_id,
        dir=str(run_dir),
        config=to_dict(config),
        resume=None if offline else "allow",  # A file cannot be continued.
        settings=wandb.Settings(console="off", silent=True, init_timeout=_CONNECT_SECONDS),
      )
    self._run.define_metric("environment_steps")
    self._run.define_metric("*", step_metric="environment_steps")

  def log(self, tags: Mapping[str, float], step: int, seconds: float) -> None:
    """Sends a point; the service's clock gives its time."""
    del seconds
    self._run.log({**tags, "environment_steps": step})

  def close(self) -> None:
    """Ends the run."""
    self._run.finish()


class MlflowClient:
  """A run of MLflow; the environment variables MLFLOW_* are those of its client."""

  def __init__(self, run_id: str, config: RunConfig, run_dir: pathlib.Path):
    """Begins the run, or continues it if the service has it, in the experiment with the config's name."""
    del run_dir  # MLflow has no files of its own here.
    for name, value in (("MLFLOW_HTTP_REQUEST_TIMEOUT", "10"), ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")):
      os.environ.setdefault(name, value)
    import mlflow
    from mlflow.entities import Metric, Param

    self._metric = Metric
    self._client = mlflow.MlflowClient()
    experiment = self._client.get_experiment_by_name(config.name)
    experiment_id = self._client.create_experiment(config.name) if experiment is None else experiment.experiment_id
    known = self._client.search_runs([experiment_id], f"tags.`slipstream.run_id` = '{run_id}'", max_results=1)
    if known:
      self._run_id = known[0].info.run_id
      self._client.update_run(self._run_id, status="RUNNING")
      return
    tags = {"slipstream.run_id": run_id}
    self._run_id = self._client.create_run(experiment_id, run_name=run_id, tags=tags).info.run_id
    parameters = [Param(key, value[:_MOST_CHARACTERS]) for key, value in flattened(to_dict(config))]
    for first in range(0, len(parameters), _MOST_PARAMETERS):
      self._client.log_batch(self._run_id, params=parameters[first : first + _MOST_PARAMETERS])

  def log(self, tags: Mapping[str, float], step: int, seconds: float) -> None:
    """Sends a point."""
    milliseconds = round(1000 * seconds)
    self._client.log_batch(
      self._run_id, metrics=[self._metric(key, value, milliseconds, step) for key, value in tags.items()]
    )

  def close(self) -> None:
    """Ends the run."""
    self._client.set_terminated(self._run_id)


_CLIENTS: Mapping[str, Callable[[str, RunConfig, pathlib.Path], Client]] = {
  "wandb": WandbClient,
  "mlflow": MlflowClient,
}


def check_sinks(names: Sequence[str]) -> None:
  """Refuses sinks whose clients are not installed.

  Raises:
    UserError: a client is not installed.
  """
  for name in names:
    if importlib.util.find_spec(name) is None:
      raise UserError(
        f"--{name} needs the package {PACKAGES[name]}, which is not installed: install it in Slipstream's environment with "
        f"'pip install {PACKAGES[name]}'."
      )


@contextlib.contextmanager
def open_sinks(names: Sequence[str], run_id: str, config: RunConfig, run_dir: pathlib.Path) -> Iterator[list[Sink]]:
  """Begins the run at each service, which may take seconds; the sinks are closed at the end of the `with` statement.

  Args:
    names: of `PACKAGES`.
    run_id: of the run.
    config: of the run.
    run_dir: the run directory.

  Raises:
    UserError: a client is not installed, or a service does not take the run.
  """
  check_sinks(names)
  sinks: list[Sink] = []
  with contextlib.ExitStack() as stack:
    for name in names:
      sink = QueuedSink(name, _begun(name, run_id, config, run_dir))
      stack.callback(sink.close)
      sinks.append(sink)
    yield sinks


def _begun(name: str, run_id: str, config: RunConfig, run_dir: pathlib.Path) -> Client:
  try:
    return _CLIENTS[name](run_id, config, run_dir)
  except Exception as error:  # Each client has errors of its own.
    raise UserError(
      f"{name} does not take the run ({type(error).__name__}: {_first_line(error)}): see its documentation for logging in, for "
      f"addresses and for working offline, or leave --{name} out."
    ) from None


@contextlib.contextmanager
def _no_questions() -> Iterator[None]:
  """Meanwhile the terminal gives no answers: a client that asks would wait for ever."""
  terminal = sys.stdin
  with pathlib.Path(os.devnull).open() as nothing:
    sys.stdin = nothing
    try:
      yield
    finally:
      sys.stdin = terminal


def flattened(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
  """Nested dicts as pairs of a dotted path and a text; a list is one value, as JSON."""
  if isinstance(data, Mapping) and data:
    for key, value in data.items():
      yield from flattened(value, f"{path}.{key}" if path else str(key))
  else:
    yield path, data if isinstance(data, str) else json.dumps(data)


def _first_line(error: Exception) -> str:
  return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _log(sentence: str) -> None:
  with contextlib.suppress(OSError):  # The log may be on a full disk.
    print(sentence, flush=True)

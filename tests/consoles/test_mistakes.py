"""What is wrong between a worker and a console, each in one sentence; the command line's own are in tests/slipstream/mistakes."""

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from configs import UserError
from consoles import console_pb2
from consoles.client import Console
from consoles.connection import Connection, Failed
from consoles.server import ConsoleServer
from tests.consoles.serving import served, served_later


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[ConsoleServer]:
  with served() as server:
    yield server


def _refusal(address: str, **arguments: Any) -> str:
  with pytest.raises(UserError) as refused:
    Console(address, **arguments)
  return str(refused.value).replace(address, "ADDRESS")


def test_no_console_answers() -> None:
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
    said = _refusal(address, timeouts={"start": 0.3})
  assert said.startswith("The console at ADDRESS does not answer (")
  assert said.endswith("): see that it runs there and can be reached.")


def test_something_that_is_no_console_answers() -> None:
  with socket.create_server(("127.0.0.1", 0)) as other:
    said = _refusal(f"127.0.0.1:{other.getsockname()[1]}", timeouts={"start": 0.3})
  assert said.startswith("The console at ADDRESS did")


@pytest.mark.parametrize(
  ("knows", "sentence"),
  [
    (
      True,
      "The console at ADDRESS speaks version 2 of the protocol, and this worker version 1: bring both to the same version of "
      "Slipstream.",
    ),
    (
      False,
      "The console at ADDRESS speaks no version of the protocol that this worker knows: bring both to the same version of "
      "Slipstream.",
    ),
  ],
)
def test_another_protocol(knows: bool, sentence: str) -> None:
  with served_later(knows) as address:
    assert _refusal(address) == sentence


NAME = "tests.consoles.serving:Counter"


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (
      {"world": "slingshot"},
      f"The console at ADDRESS plays '{NAME}', and 'slingshot' is expected: check the address, or start it with "
      "--world=slingshot.",
    ),
    (
      {"scenario": "rally"},
      f"The console at ADDRESS has no scenario 'rally': there are {NAME}.",
    ),
    (
      {"options": {"lenght": 3}},
      f"The console at ADDRESS says: The environment '{NAME}' has no argument 'lenght': did you mean 'length'?",
    ),
    (
      {"num_envs": 1001},
      "The console at ADDRESS says: A worker wants 1001 cars: a console has at most 1000.",
    ),
    ({"num_envs": -1}, "A console is to have -1 cars: it must be a whole number, or 0 for the scenario's own."),
    (
      {"options": {"length": {}}},
      "A console's option is {}: it must be null, true, false, a number, a text or a list of these.",
    ),
    ({"timeouts": {"stop": 1}}, "A console has no timeout 'stop': did you mean 'step'?"),
    (
      {"timeouts": {"step": 0}},
      "A console's timeout 'step' is 0: it must be a number of seconds above 0, at most a day.",
    ),
    ({"tls": {"cert": "x"}}, "TLS has no file 'cert': it needs tls_cert, tls_key and tls_ca."),
    ({"tls": {"tls_cert": "x"}}, "--tls_key is missing: TLS needs --tls_cert, --tls_key and --tls_ca together."),
  ],
)
def test_a_console_that_is_not_what_is_asked_for(
  server: ConsoleServer, arguments: dict[str, Any], sentence: str
) -> None:
  assert _refusal(server.address, **arguments) == sentence


@pytest.mark.parametrize("address", ["", "here", "here:", ":80", "here:http", "here:99999", "here:0"])
def test_an_address_that_is_none(address: str) -> None:
  with pytest.raises(UserError, match="write it as host:port"):
    Console(address)


def test_a_vector_world_with_another_number_of_cars() -> None:
  with served("vector", options='{"num": 2}') as server:
    assert _refusal(server.address, num_envs=4) == (
      "The console at ADDRESS says: The world 'tests.consoles.serving:vector' has 2 cars, and the worker wants 4: ask for as "
      "many as it has."
    )


@pytest.mark.parametrize(
  ("actions", "sentence"),
  [
    (
      [[0.0], [np.nan]],
      "The action of car 1 for the console at ADDRESS is [nan]: it must be finite, so the policy has diverged.",
    ),
    ([[0.0]], "The actions for the console at ADDRESS have the shape (1, 1), and it takes (2, 1): fix the policy."),
  ],
)
def test_actions_that_are_none(server: ConsoleServer, actions: Any, sentence: str) -> None:
  console = Console(server.address, num_envs=2)
  console.reset()
  with pytest.raises(UserError) as refused:
    console.step(np.array(actions))
  assert str(refused.value).replace(server.address, "ADDRESS") == sentence
  console.close()


@pytest.mark.parametrize(
  "options", [{"reset_mask": [True]}, {"reset_mask": np.zeros(1, bool)}, {"reset_mask": np.ones(1)}, {"laps": 3}]
)
def test_a_reset_with_other_options(server: ConsoleServer, options: Any) -> None:
  console = Console(server.address, num_envs=2)
  console.reset()
  with pytest.raises(UserError, match=r"^(The reset_mask of a console is|A console's reset has no option 'laps')"):
    console.reset(options=options)
  console.close()


@pytest.mark.parametrize("seed", [-1, [1, 2, 3], [1, None], "1", 2**64])
def test_a_seed_that_is_none(server: ConsoleServer, seed: Any) -> None:
  console = Console(server.address, num_envs=2)
  with pytest.raises(
    UserError, match=r"The seed of a console is .*: it must be a whole number from 0, or a list of 2 of them"
  ):
    console.reset(seed=seed)
  console.close()


def _ask(server: ConsoleServer, *requests: console_pb2.Request) -> str:
  """What a console says to requests that our own client would not make."""
  stream = Connection(server.address, None).play()
  for request in requests[:-1]:
    stream.ask(request, 5.0)
  with pytest.raises(Failed) as failed:
    stream.ask(requests[-1], 5.0)
  return f"{failed.value.code.name} {failed.value}"


_OPEN = console_pb2.Request(open=console_pb2.Open(protocol=1))
_PLAY = console_pb2.Request(launch=console_pb2.Launch(setup=console_pb2.Setup(cars=2)))


@pytest.mark.parametrize(
  ("requests", "sentence"),
  [
    ([_PLAY], "FAILED_PRECONDITION says: a stream must begin with open"),
    (
      [console_pb2.Request(open=console_pb2.Open(protocol=7))],
      "FAILED_PRECONDITION says: the worker speaks version 7 of the protocol, and the console 1",
    ),
    (
      [_OPEN, console_pb2.Request(step=console_pb2.Step())],
      "FAILED_PRECONDITION says: a step came before the first launch",
    ),
    (
      [_OPEN, console_pb2.Request(launch=console_pb2.Launch())],
      "FAILED_PRECONDITION says: the first launch must say what to play",
    ),
    (
      [_OPEN, _OPEN],
      "FAILED_PRECONDITION says: open came where launch, step or close belongs",
    ),
    (
      [_OPEN, _PLAY, console_pb2.Request(launch=console_pb2.Launch(cars=[True]))],
      "INVALID_ARGUMENT says: a launch names 1 of 1 cars, and 2 are played",
    ),
    (
      [_OPEN, _PLAY, console_pb2.Request(launch=console_pb2.Launch(seeds=[1, 2, 3]))],
      "INVALID_ARGUMENT says: a launch has 3 seeds: give none, one, or 2",
    ),
    (
      [_OPEN, _PLAY, console_pb2.Request(step=console_pb2.Step(actions=b"123"))],
      "INVALID_ARGUMENT says: a step has 3 bytes, which are no actions of 2 cars",
    ),
    (
      [_OPEN, _PLAY, console_pb2.Request(step=console_pb2.Step(actions=np.array([[0], [np.inf]], "<f4").tobytes()))],
      "INVALID_ARGUMENT says: an action of car 1 is not a finite number: the policy has diverged",
    ),
  ],
)
def test_a_client_of_another_make_is_told_what_it_does_wrong(
  server: ConsoleServer, requests: list[console_pb2.Request], sentence: str
) -> None:
  assert _ask(server, *requests) == sentence
  Console(server.address).close()

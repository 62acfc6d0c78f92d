"""The compose files, as text; `make test-docker` runs them."""

import runpy
import shlex

import pytest

from configs import load_config
from slipstream.commands import COMMANDS
from tests.docker.texts import DOCKER, ROOT, read_compose, variables_of

FILES = sorted(path.name for path in DOCKER.glob("compose*.yaml"))
BASE = read_compose("compose.yaml")
SERVICES = BASE["services"]
ROLES = sorted(set(SERVICES) - {"tensorboard"})
HEALTH_PORT = runpy.run_path(str(DOCKER / "healthcheck.py"))["DEFAULT_PORT"]


def _commands():
  """(file, service, words) of every command of a role."""
  for name in FILES:
    for service, settings in read_compose(name)["services"].items():
      if service in ROLES and "command" in settings:
        yield pytest.param(shlex.split(settings["command"]), id=f"{name}: {service}")


def _flags(service):
  words = shlex.split(SERVICES[service]["command"])
  return COMMANDS[words[0]].parse(words[1:]).flags


def test_services_are_the_roles_and_tensorboard():
  assert sorted(SERVICES) == ["actor", "evaluator", "learner", "server", "tensorboard"]


@pytest.mark.parametrize("words", list(_commands()))
def test_every_command_is_accepted(words):
  COMMANDS[words[0]].parse(words[1:])


@pytest.mark.parametrize("name", FILES)
def test_overrides_change_services_that_exist(name):
  settings = read_compose(name)
  assert set(settings["services"]) <= set(SERVICES)
  # docker-compose 1.29 refuses the first; Compose 2 warns of the second.
  assert {"name", "version"} & set(settings) == set()


@pytest.mark.parametrize("role", ROLES)
def test_with_tls_a_command_has_its_files_besides(role):
  plain, over_tls = (
    shlex.split(read_compose(name)["services"][role]["command"]) for name in ("compose.yaml", "compose.tls.yaml")
  )
  files = ["--tls_cert=/tls/tls.crt", "--tls_key=/tls/tls.key", "--tls_ca=/tls/ca.crt"]
  assert over_tls == [*plain, *files, *(["--tls_crl=/tls/crl.pem", "--tls_only"] if role == "server" else [])]


def test_with_tls_the_server_alone_is_published_besides():
  services = read_compose("compose.tls.yaml")["services"]
  assert {name: one["ports"] for name, one in services.items() if "ports" in one} == {"server": ["8000:8000"]}
  assert {name: one["volumes"][0].partition(":")[0] for name, one in services.items()} == {
    role: f"SLIPSTREAM_TLS/{role}" for role in ROLES
  }


def test_roles_find_the_server_and_each_other():
  server = _flags("server")
  load_config(server.config)
  for role in ("learner", "evaluator", "actor"):
    assert _flags(role).server == f"server:{server.port}"
  assert {_flags(role).run_dir for role in ("server", "learner", "evaluator")} == {server.run_dir}


@pytest.mark.parametrize("role", ROLES)
def test_health_checks_ask_where_roles_answer(role):
  assert _flags(role).metrics_port == HEALTH_PORT


def test_the_others_wait_until_the_server_is_ready():
  assert SERVICES["server"]["healthcheck"]["test"] == ["CMD", "slipstream-health", str(HEALTH_PORT), "readyz"]
  for role in ("learner", "evaluator", "actor"):
    assert SERVICES[role]["depends_on"] == {"server": {"condition": "service_healthy"}}


def test_scaled_actors_are_told_apart():
  assert _flags("actor").host_index
  assert "container_name" not in SERVICES["actor"]
  assert "hostname" not in SERVICES["actor"]


@pytest.mark.parametrize("service", SERVICES)
def test_every_container_is_confined(service):
  settings = SERVICES[service]
  assert settings["read_only"] is True
  assert settings["cap_drop"] == ["ALL"]
  assert settings["security_opt"] == ["no-new-privileges:true"]
  assert settings["pull_policy"] == "never"
  assert [mount.partition(":")[0] for mount in settings["tmpfs"]] == ["/tmp"]
  assert settings["mem_limit"]


def test_only_tensorboard_is_published_and_on_this_host_alone():
  assert {name: one["ports"] for name, one in SERVICES.items() if "ports" in one} == {
    "tensorboard": ["127.0.0.1:6006:6006"]
  }
  assert {name: one["networks"] for name, one in SERVICES.items() if name != "tensorboard"} == {
    role: ["run"] for role in ROLES
  }
  assert SERVICES["tensorboard"]["networks"] == ["published"]
  assert BASE["networks"]["run"] == {"internal": True}


def test_tensorboard_may_not_write():
  assert SERVICES["tensorboard"]["volumes"] == ["runs:/runs:ro"]


@pytest.mark.parametrize("name", FILES)
def test_the_page_explains_every_variable(name):
  page = (ROOT / "docs" / "deploy.md").read_text()
  assert [variable for variable in sorted(variables_of(name)) if f"`{variable}`" not in page] == []

"""What is found wrong with a machine or an address, and how the CUDA libraries are found."""

import pathlib
import shutil
import socket
import sys

import numpy as np
import psutil
import pytest

from configs import UserError
from launch import doctor, gpu
from launch.endpoint import Endpoint
from tests.actors.running import SPEC, make_run
from tests.serving import serving


def states(findings: list[doctor.Finding]) -> dict[str, str]:
  return {finding.name: finding.state for finding in findings}


def test_nothing_is_wrong_with_a_machine_that_runs_the_tests():
  findings = doctor.examine_machine()
  assert set(states(findings).values()) == {"ok"}
  packages = {finding.name: finding.text for finding in findings}
  assert packages["numpy"] == np.__version__
  assert packages.keys() >= {"tensorflow", "dm-reverb", "dm-launchpad", "protobuf", "memory", "processors"}


def test_packages_that_are_missing_or_of_another_version_are_wrong():
  findings = doctor.examine_packages(["numpy==0.1", "no-such-package==2.0", "rich", 'pytest==1; extra == "dev"'])
  assert states(findings) == {"numpy": "wrong", "no-such-package": "wrong"}
  assert findings[0].text == f"{np.__version__} is installed, but 0.1 is needed: run make env."
  assert findings[1].text == "not installed, but 2.0 is needed: run make env."


def test_without_a_driver_the_gpu_is_no_fault(monkeypatch):
  monkeypatch.setattr(gpu, "DRIVER", "libno_such_driver.so.1")
  (finding,) = doctor.examine_gpu()
  assert (finding.state, finding.text) == ("note", "no NVIDIA driver on this machine: learners use the CPU.")


def test_libraries_are_loaded_from_wheels_and_what_is_missing_or_broken_is_reported(monkeypatch, tmp_path):
  # A folder `nvidia` on the path, as NVIDIA's wheels have it.
  names = {
    "libcufft_of_the_test.so.1": "cufft",
    "libbroken_of_the_test.so.1": "broken",
    "libmissing_of_the_test.so.1": "missing",
  }
  for part in ("cufft", "broken"):
    (tmp_path / "nvidia" / part / "lib").mkdir(parents=True)
  # Any library that needs nothing but the C library, such as psutil's.
  library = next(pathlib.Path(psutil.__file__).parent.glob("*.so"))
  shutil.copy(library, tmp_path / "nvidia" / "cufft" / "lib" / "libcufft_of_the_test.so.1")
  (tmp_path / "nvidia" / "broken" / "lib" / "libbroken_of_the_test.so.1").write_text("no library")
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(gpu, "LIBRARIES", names)
  monkeypatch.setattr(gpu, "DRIVER", "libc.so.6")
  loaded, broken, missing = gpu.load_libraries()
  assert (loaded.problem, loaded.place) == ("", str(tmp_path / "nvidia" / "cufft" / "lib" / loaded.name))
  assert broken.problem
  assert broken.place
  assert (bool(missing.problem), missing.place) == (True, "")
  findings = doctor.examine_gpu()
  assert [finding.state for finding in findings[:4]] == ["ok", "ok", "wrong", "wrong"]
  assert "make gpu" in findings[3].text
  assert findings[4].name == "TensorFlow"


def test_what_a_calculation_on_the_gpu_ends_with_is_said() -> None:
  def problem_of(code: str, timeout_seconds: float = 60.0) -> str:
    return doctor.problem_of([sys.executable, "-c", code], timeout_seconds)

  assert problem_of("") == ""
  assert problem_of("import sys; sys.exit('no kernel image\\n')") == "failed, exit code 1 (no kernel image)"
  assert problem_of("import os; os.abort()") == "failed, exit code -6 (it said nothing)"
  assert problem_of("import time; time.sleep(60)", timeout_seconds=0.5) == "took longer than 0.5 s"


def test_the_first_calculation_passes_where_there_is_no_gpu() -> None:
  assert doctor.problem_of([sys.executable, "-m", "launch.first_calculation"]) == ""


def test_an_address_where_nobody_listens_and_an_unknown_name_are_told_apart():
  with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))  # Bound but not listening: connections are refused.
    (refused,) = doctor.examine_server(Endpoint(f"127.0.0.1:{taken.getsockname()[1]}"))
  assert "nobody listens on port" in refused.text
  (unknown,) = doctor.examine_server(Endpoint("no-such-host.invalid:7000"))
  assert "the name 'no-such-host.invalid' is unknown here" in unknown.text
  with pytest.raises(UserError, match="host:port"):
    doctor.examine_server(Endpoint("7000"))


def test_something_else_at_the_address_is_reported():
  with socket.create_server(("127.0.0.1", 0)) as other:
    findings = doctor.examine_server(Endpoint(f"127.0.0.1:{other.getsockname()[1]}"))
  assert states(findings) == {"address": "ok", "server": "wrong"}
  assert "does not answer" in findings[1].text


def test_a_run_is_found_at_its_address(tmp_path):
  config = make_run()
  with serving(config, tmp_path, SPEC) as server:
    findings = doctor.examine_server(Endpoint(server.address))
  assert states(findings)["server"] == "ok"
  assert states(findings)["versions"] == "ok"
  assert config.name in findings[1].text


def test_a_cpu_quota_is_shown(monkeypatch):
  monkeypatch.setattr(doctor, "usable_cores", lambda: 0.5)
  findings = {finding.name: finding.text for finding in doctor.examine_machine()}
  assert findings["processors"].startswith("0.5 cores for this process, by the CPU quota")

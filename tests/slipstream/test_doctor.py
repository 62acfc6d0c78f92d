"""`slipstream doctor`: how it prints what it finds."""

import json

from launch import gpu
from launch.doctor import examine_server
from launch.endpoint import Endpoint
from slipstream.main import run
from tests.actors.running import SPEC, make_run
from tests.serving import serving


def test_for_programs_all_findings_are_json(tmp_path, capsys):
  with serving(make_run(), tmp_path, SPEC) as server:
    findings = examine_server(Endpoint(server.address))
    assert run(["doctor", f"--server={server.address}", "--json"]) in (0, 2)
  printed = json.loads(capsys.readouterr().out)
  assert [finding["name"] for finding in printed[f"Server {server.address}"]] == [finding.name for finding in findings]


def test_the_command_prints_a_line_for_each_finding_and_ends_with_2_where_something_is_wrong(capsys, monkeypatch):
  monkeypatch.setattr(gpu, "DRIVER", "libno_such_driver.so.1")
  assert run(["doctor"]) == 0
  assert capsys.readouterr().out.rstrip().endswith("Nothing is wrong.")
  assert run(["doctor", "--server=no-such-host.invalid:7000"]) == 2
  output = capsys.readouterr().out
  assert "wrong address: the name 'no-such-host.invalid' is unknown here" in output
  assert output.rstrip().endswith("1 thing is wrong.")

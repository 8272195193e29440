"""``broker-ctl units install``: the unit of this installation, and what is there already."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from tests.deploy.test_service_unit import UNIT

UNIT_PATH = Path("etc/systemd/system/broker-ctl.service")
SETTINGS_PATH = Path("etc/broker-ctl/broker.conf")


def install(root: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["units", "install", "--root", str(root), *more])


def test_the_unit_starts_this_program_with_this_file_and_is_else_the_one_of_the_release(
    tmp_path: Path,
) -> None:
    result = install(tmp_path, "--config", "/srv/b.conf")
    assert result.exit_code == 0, result.output
    lines = (tmp_path / UNIT_PATH).read_text().splitlines()
    own = f"ExecStart={sys.prefix}/bin/broker-ctl run -c /srv/b.conf"
    assert own in lines
    # Where the program lies in none of the directories that the unit shows.
    shown = f"BindReadOnlyPaths={sys.prefix}"
    released = UNIT.read_text().splitlines()
    shipped = released[released.index("[Unit]") :]
    assert [line for line in lines if line not in {own, shown, ""}] == [
        line for line in shipped if line and not line.startswith("ExecStart=")
    ]
    assert (tmp_path / "srv/b.conf").stat().st_mode & 0o777 == 0o640
    assert "u broker-ctl " in (tmp_path / "etc/sysusers.d/broker-ctl.conf").read_text()


def test_the_unit_shows_the_service_a_program_and_settings_that_lie_elsewhere(
    tmp_path: Path,
) -> None:
    program = ("--program", "/data/venv/bin/broker-ctl")
    assert install(tmp_path, *program, "--config", "/etc/broker-ctl/b.conf").exit_code == 0
    added = (tmp_path / UNIT_PATH).read_text().splitlines()
    assert added[-4] == "BindReadOnlyPaths=/data/venv"
    assert install(tmp_path, *program, "--config", "/x/b.conf", "--force").exit_code == 0
    added = (tmp_path / UNIT_PATH).read_text().splitlines()
    assert added[-4] == "BindReadOnlyPaths=/data/venv /x"


def test_a_second_run_changes_nothing_and_keeps_the_settings_of_the_operator(
    tmp_path: Path,
) -> None:
    assert install(tmp_path).exit_code == 0
    (tmp_path / SETTINGS_PATH).write_text("clusterName=mine\n")
    result = install(tmp_path, "--force", "--output", "json")
    assert [row["result"] for row in json.loads(result.output)["files"]] == [
        "unchanged",
        "unchanged",
        "kept",
    ]
    assert (tmp_path / SETTINGS_PATH).read_text() == "clusterName=mine\n"


def test_a_unit_that_was_edited_is_replaced_only_by_force(tmp_path: Path) -> None:
    unit = tmp_path / UNIT_PATH
    unit.parent.mkdir(parents=True)
    unit.write_text("edited\n")
    result = install(tmp_path)
    assert result.exit_code == 1
    assert f"{unit} exists and differs; --force replaces it" in result.output
    assert unit.read_text() == "edited\n"
    assert not (tmp_path / SETTINGS_PATH).exists()
    assert install(tmp_path, "--force").exit_code == 0
    assert "ExecStart=" in unit.read_text()


def test_a_dry_run_prints_every_file_and_writes_none(tmp_path: Path) -> None:
    result = install(tmp_path, "--dry-run")
    assert result.exit_code == 0
    assert "ExecStart=" in result.output
    assert "metadataStoreUrl=" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_systemd_would_read_otherwise_is_refused(tmp_path: Path) -> None:
    for path in ("bin/broker-ctl", "/a b/broker-ctl", "/100%/broker-ctl", "/a\nUser=root"):
        result = install(tmp_path, "--program", path)
        assert result.exit_code == 2, path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_a_unit_with_its_networks_has_an_exposure_of_one_at_most(tmp_path: Path) -> None:
    networks = ("--allow-network", "10.1.0.0/16", "--allow-network", "fd00::/8")
    assert install(tmp_path, *networks).exit_code == 0
    unit = tmp_path / UNIT_PATH
    lines = unit.read_text().splitlines()
    service = lines[: lines.index("[Install]")]
    assert service[-3:-1] == ["IPAddressDeny=any", "IPAddressAllow=localhost 10.1.0.0/16 fd00::/8"]
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=10", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-300:]


def test_a_network_that_systemd_would_not_take_is_refused(tmp_path: Path) -> None:
    refused = install(tmp_path, "--allow-network", "10.1.0.1/16")
    assert refused.exit_code == 2
    assert "10.1.0.1/16 has host bits set" in refused.output
    assert list(tmp_path.iterdir()) == []

"""The systemd unit: what it says of the daemon is what the daemon does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from broker_ctl.cli.run import command
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.settings.root import DECLARATIONS, Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "broker-ctl.service"
GUIDE = ROOT / "docs" / "how-to" / "install-as-a-service.md"
# Back-off between restarts; older systemd warns and goes on.
SINCE_254 = ("RestartSteps", "RestartMaxDelaySec")


def settings_of(section: str) -> dict[str, list[str]]:
    """Values by key; a key may stand several times."""
    found: dict[str, list[str]] = {}
    here = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            here = line.strip("[]")
        elif here == section and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


SERVICE = settings_of("Service")


def one(key: str) -> str:
    (value,) = SERVICE[key]
    return value


def test_the_unit_runs_the_daemon_with_the_file_in_etc() -> None:
    program, *arguments = one("ExecStart").split()
    assert program.endswith("/bin/broker-ctl")
    assert arguments[0] == "run"
    context = click.Context(command)
    command.parse_args(context, arguments[1:])
    assert context.params["configuration"] == Path("/etc/broker-ctl/broker.conf")


def test_an_exit_that_an_operator_has_to_look_at_prevents_a_restart() -> None:
    assert one("Restart") == "on-failure"
    assert {int(code) for code in one("RestartPreventExitStatus").split()} == {
        exits.HISTORY_BEHIND,
        exits.RETRIES_USED_UP,
        exits.TOO_OLD,
        exits.NOT_ADMITTED,
    }
    assert exits.STOPPED == 0


def test_restarts_back_off() -> None:
    assert int(one("RestartMaxDelaySec")) > int(one("RestartSec"))
    assert int(one("RestartSteps")) > 1
    assert settings_of("Unit")["StartLimitIntervalSec"] == ["0"]


def test_the_unit_waits_for_the_longest_stop() -> None:
    assert int(one("TimeoutStopSec")) > Settings().session.shutdown_timeout_s


def test_the_watchdog_does_not_outlast_a_session() -> None:
    assert one("Type") == "notify"
    assert 0 < int(one("WatchdogSec")) <= Settings().metadata.session_timeout_s


def test_the_unit_may_write_only_to_its_state_directory() -> None:
    assert one("ProtectSystem") == "strict"
    assert one("StateDirectory") == "broker-ctl"
    assert "ReadWritePaths" not in SERVICE
    assert one("User") != "root"


def test_no_secret_of_the_daemon_reaches_a_disk() -> None:
    assert one("LimitCORE") == "0"
    assert one("MemorySwapMax") == "0"


def drop_in() -> dict[str, str]:
    """What the guide leaves to the operator."""
    (block,) = re.findall(r"```ini\n\[Service\]\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return dict(line.split("=", 1) for line in block.splitlines())


def test_the_drop_in_of_the_guide_adds_what_the_unit_leaves_to_the_operator() -> None:
    added = drop_in()
    assert added.keys() >= {"IPAddressDeny", "IPAddressAllow", "MemoryMax", "LoadCredential"}
    assert not added.keys() & SERVICE.keys()
    # It slows the process down, and the heartbeats with it.
    assert "MemoryHigh" not in {*added, *SERVICE}
    name, _, _ = added["LoadCredential"].partition(":")
    variable, _, path = added["Environment"].partition("=")
    assert path == f"%d/{name}"
    assert variable.removeprefix("BROKER_CTL_") in DECLARATIONS


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("is_confined_further", [False, True])
def test_systemd_takes_every_line(is_confined_further: bool, tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # The program is not installed here, and must exist for the check.
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.MULTILINE
    )
    if is_confined_further:
        text += "[Service]\n" + "".join(f"{key}={value}\n" for key, value in drop_in().items())
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    # It speaks of other units of this machine, too.
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    unknown = re.compile(rf"Unknown key.* '({'|'.join(SINCE_254)})'")
    assert [line for line in complaints if not unknown.search(line)] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_daemon_is_confined() -> None:
    """At most 1.0 of 10 on systemd's scale of exposure; what is left is the network."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=10", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stdout[-500:]
    assert int(one("TasksMax")) <= 1024

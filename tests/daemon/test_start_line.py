"""What the log of a real daemon begins with: which version, which process, which file."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from importlib.metadata import version
from pathlib import Path

import pytest

from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S


@pytest.mark.parametrize("has_file", [True, False])
async def test_a_start_is_logged_first_with_version_pid_and_configuration(
    has_file: bool, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    # Nobody listens on a port that is held: the line does not wait for ZooKeeper.
    with reserve_port() as nobody:
        settings = {
            "metadataStoreUrl": f"zk:127.0.0.1:{port_of(nobody)}",
            "webServicePort": str(free_port()),
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        given = {f"BROKER_CTL_{key}": value for key, value in settings.items()}
        daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker_ctl", "run"),
            *(("-c", str(file)) if has_file else ()),
            stdout=PIPE,
            stderr=STDOUT,
            env={**os.environ, **({} if has_file else given)},
        )
        try:
            assert daemon.stdout is not None
            async with asyncio.timeout(PATIENCE_S):
                line = (await daemon.stdout.readline()).decode()
        finally:
            daemon.kill()
            await daemon.communicate()
    which = str(file) if has_file else "without a file"
    message = f"broker-ctl {version('broker-ctl')}, pid {daemon.pid}, configuration {which}\n"
    assert line.endswith(f"INFO    daemon.lifecycle.start: {message}")

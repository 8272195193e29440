"""``broker-ctl dataplane check`` as a process, against the reference broker as a process."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker_ctl.dataplane.webhook import wire
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

MAIN = "from broker_ctl.cli.main import main; main()"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("shared-by-both\n")
    path.chmod(0o600)
    return path


async def run(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MAIN, "dataplane", "check", *arguments, stdout=PIPE, stderr=PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def reference_broker(port: int, secret_file: Path, daemon: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "docs.examples.reference_broker", "--port", str(port)),
        *("--secret-file", str(secret_file)),
        *("--authority-url", f"http://{daemon}{wire.AUTHORITY}"),
        cwd=Path(__file__).parents[2],
    )
    try:
        await eventually(lambda: is_listening(port))
        yield process
    finally:
        process.terminate()
        await process.wait()


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_the_exit_code_says_whether_every_check_passed(secret_file: Path) -> None:
    """One broker process pulls its authority where the check listens, another one elsewhere."""
    async with asyncio.TaskGroup() as tasks:
        honest = tasks.create_task(checked(secret_file, reaches_check=True), name="honest")
        lost = tasks.create_task(checked(secret_file, "--output", "json"), name="lost")
    code, out, err = honest.result()
    assert (code, err) == (0, "")
    *lines, summary = out.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    assert summary == f"{len(lines)} of {len(lines)} checks passed"
    code, out, _ = lost.result()
    assert code == 1
    failed = [check for check in json.loads(out)["checks"] if not check["ok"]]
    assert {check["name"].partition(":")[0] for check in failed} == {"authority"}
    assert all(check["expected"] and check["seen"] for check in failed)


async def checked(
    secret_file: Path, *options: str, reaches_check: bool = False
) -> tuple[int, str, str]:
    port, daemon = free_port(), f"127.0.0.1:{free_port()}"
    async with reference_broker(port, secret_file, daemon if reaches_check else "127.0.0.1:1"):
        return await run(
            f"http://127.0.0.1:{port}",
            *("--secret-file", str(secret_file), "--authority-listen", daemon, *options),
        )


async def test_nobody_there_is_one_line(secret_file: Path) -> None:
    code, out, err = await run("http://127.0.0.1:1", "--secret-file", str(secret_file))
    assert (code, out) == (1, "")
    assert err.startswith("Error: GET http://127.0.0.1:1/dataplane/v1/state: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("listen", ["8080", "host:", "host:99999", ":1"])
async def test_a_useless_address_is_a_wrong_option(secret_file: Path, listen: str) -> None:
    code, _, err = await run(
        "http://127.0.0.1:1", "--secret-file", str(secret_file), "--authority-listen", listen
    )
    assert code == 2
    assert "is not HOST:PORT" in err


async def test_an_empty_secret_is_a_wrong_option(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text("\n")
    code, _, err = await run("http://127.0.0.1:1", "--secret-file", str(path))
    assert code == 2
    assert "does not contain a secret" in err


async def test_help_shows_an_example() -> None:
    code, out, _ = await run("--help")
    assert code == 0
    assert "broker-ctl dataplane check http://" in out

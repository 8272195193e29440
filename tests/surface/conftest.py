"""Brokers with a surface each, and a client."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_ctl.http import HttpClient
from tests.support.surface_parts import Broker, serving_brokers
from tests.support.web_server import free_port


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(timeout_s=5, max_body_bytes=1 << 20) as client:
        yield client


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Broker, Broker]]:
    """The leader, and a follower."""
    async with serving_brokers([free_port(), free_port()]) as (leader, follower):
        yield leader, follower


@pytest.fixture
def leader(pair: tuple[Broker, Broker]) -> Broker:
    return pair[0]


@pytest.fixture
def follower(pair: tuple[Broker, Broker]) -> Broker:
    return pair[1]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of 127.0.0.1 with its key in one file, and alone beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("makes its certificate with the openssl command")
    pem = tmp_path / "localhost.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", str(pem), "-out", f"{pem}.crt"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    pem.write_text(pem.read_text() + Path(f"{pem}.crt").read_text())
    return pem

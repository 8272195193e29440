"""The reference broker as a process of its own, and the settings of a daemon beside it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

SECRET = "the-secret-of-broker-and-daemon"


def webhook(port: int, secret_file: Path) -> dict[str, str]:
    """Settings of a daemon with a broker process on ``port``."""
    secret_file.write_text(SECRET)
    secret_file.chmod(0o600)
    return {
        "dataPlane": "webhook",
        "dataPlaneUrl": f"http://127.0.0.1:{port}",
        "dataPlaneSecretFile": str(secret_file),
        "dataPlaneFailureTimeoutMillis": "1500",
        "dataPlaneRequestTimeoutMillis": "1000",
        "hostUsageSource": "host",
    }


@asynccontextmanager
async def broker_process(
    port: int, secret_file: Path, authority_url: str, *options: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The reference broker, as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "docs.examples.reference_broker",
        "--port", str(port), "--secret-file", str(secret_file), "--authority-url", authority_url,
        *options,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()

"""Attacks that need no daemon: a program of the tree that is attacked, in a process of its own."""

import asyncio
import sys
from typing import Final

from tests.security.attacks.scene import Outcome, Scene
from tests.support.time.waiting import PATIENCE_S

# The sender's clock is 30 s ahead; the receiver has restarted 3 s after it took the request.
_REPEATED: Final = """
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import (
    HEADER, RequestSigner, RequestVerifier, SignatureRefused,
)
keys, now, path = ClusterKeys.of([bytes(range(32))]), 1_000_000_000_000, "/control/v1/cut"
header = RequestSigner(keys, "a:1").sign("b:1", "POST", path, b"{}", now + 30_000)[HEADER]
RequestVerifier(keys, "b:1", now - 5_000).verify(header, "POST", path, now)
try:
    RequestVerifier(keys, "b:1", now + 3_000).verify(header, "POST", path, now + 4_000)
    print("taken again")
except SignatureRefused as refused:
    print("refused:", refused)
"""
# What a bundle's file may be read by when its mode is set, if that is done later at all.
_BUNDLE: Final = """
import os, tempfile
from pathlib import Path
try:
    from broker_ctl.cli.diagnosis import BundleFile, Redaction
except ImportError:
    from broker_ctl.cli.diagnosis.bundle_file import BundleFile
    from broker_ctl.cli.diagnosis.redaction import Redaction
os.umask(0o022)
modes, chmod = [], Path.chmod
def watched(self, mode, **named):
    modes.append(self.stat().st_mode & 0o777)
    return chmod(self, mode, **named)
Path.chmod = watched
with tempfile.TemporaryDirectory() as directory:
    made = Path(directory, "b.tar.gz")
    bundle = BundleFile("t", 0, Redaction())
    bundle.add("a", "x")
    bundle.write(made)
    modes.append(made.stat().st_mode & 0o777)
print(" ".join(map(oct, modes)))
"""


async def request_again_after_a_restart(_: Scene) -> Outcome:
    """Send a signed request of a broker whose clock is ahead again, once its receiver restarted."""
    said = await _printed(_REPEATED)
    return Outcome(said == "taken again", said)


async def support_bundle_in_the_open(_: Scene) -> Outcome:
    """Open a support bundle in the moment after it was made, and read all of it later."""
    said = await _printed(_BUNDLE)
    return Outcome(any(int(mode, 8) & 0o077 for mode in said.split()), said)


async def _printed(text: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", text), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _error = await process.communicate()
    assert process.returncode == 0
    return output.decode().strip()

"""Names from outside that become words of commands, and texts that cost their reader minutes."""

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.security.attacks.scene import Outcome, Scene, command
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.anonymous import anonymous_client

_LISTS: Final = ("/broker-ctl/brokers", "/loadbalance/brokers")
_OPTION: Final = "-oProxyCommand=touch pwned #:8080"
_SUBSTITUTION: Final = "$(touch${IFS}pwned):8080"
_TEXT: Final = 2_000
# Of the processor; one pass takes milliseconds.
_SLOW_S: Final = 0.5


async def option_of_a_restart_command(scene: Scene) -> Outcome:
    """Register a broker whose id is an option of the program that restarts brokers."""
    program = scene.directory / "remote"
    seen = scene.directory / "remote.words"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {shlex.quote(str(seen))}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    words = ("rollout", "run", "--yes", "--accept-overload", "--gate-timeout", "5")
    limits = ("--restart-timeout", "5", "--url", scene.open_one.url)
    restart = f"{program} {{host}} systemctl restart"
    # It waits for a broker that nobody can restart.
    with _forged(scene, _OPTION), suppress(TimeoutError):
        await command(*words, "--restart-command", restart, *limits)
    first = seen.read_text().splitlines() if seen.exists() else []
    return Outcome(any(one.startswith("-") for one in first), f"it was called with {first}")


async def substitution_by_completion(scene: Scene) -> Outcome:
    """Register a broker whose id is a command of the shell, and have it completed."""
    mark = scene.directory / "pwned"
    bin_directory = scene.directory / "bin"
    bin_directory.mkdir(exist_ok=True)
    program = bin_directory / "broker-ctl"
    if not program.is_symlink():
        program.symlink_to(Path(sys.executable).parent / "broker-ctl")
    _, script = await command("completion", "bash")
    completion = scene.directory / "completion.bash"
    completion.write_bytes(script)
    shell = (
        f"cd {scene.directory}; source {completion}\n"
        "COMP_WORDS=(broker-ctl drain '$'); COMP_CWORD=2; _broker_ctl_completion broker-ctl\n"
        'eval "true drain ${COMPREPLY[0]}"\n'
    )
    path = f"{bin_directory}:{os.environ['PATH']}"
    with _forged(scene, _SUBSTITUTION):
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", shell),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PATH": path, "BROKER_CTL_URL": scene.open_one.url},
        )
        async with asyncio.timeout(PATIENCE_S):
            await process.communicate()
    return Outcome(mark.exists(), "the shell ran it" if mark.exists() else "the shell ran nothing")


async def text_that_takes_minutes(_: Scene) -> Outcome:
    """Have a support bundle search a name of a topic for passwords."""
    text = (
        "import time; from broker_ctl.cli.diagnosis import Redaction\n"
        f"began = time.thread_time(); Redaction(['x' * 20]).of('a-' * {_TEXT})\n"
        "print(time.thread_time() - began)"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", text), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            output, _error = await process.communicate()
    except TimeoutError:
        process.kill()
        return Outcome(succeeds=True, seen=f"{2 * _TEXT} characters take minutes")
    took_s = float(output)
    return Outcome(took_s > _SLOW_S, f"{2 * _TEXT} characters take {took_s:.2f} s")


@contextmanager
def _forged(scene: Scene, broker: str) -> Iterator[None]:
    """A registration of this id, and its load, until the end of the block."""
    real = scene.open_one.broker_id
    with anonymous_client(f"{scene.address}/open") as client:
        for path in _LISTS:
            row = json.loads(client.get(f"{path}/{real}")[0])
            row.pop("signature", None)
            row = json.loads(json.dumps(row).replace(real, "host:8080"))
            row |= {"brokerId": broker} if "brokerId" in row else {}
            row |= {"nonce": "forged"} if "nonce" in row else {}
            client.create(f"{path}/{broker}", json.dumps(row).encode(), ephemeral=True)
        yield

"""What this machine knows: versions, limits, the journal of the unit, ends of log files."""

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Final

import psutil

from broker_ctl.cli.diagnosis.bundle_file import BundleFile

_LINES: Final = 5_000
_JOURNAL_LIMIT_S: Final = 30.0
_END_BYTES: Final = 4 * 1024 * 1024


def add_machine(bundle: BundleFile) -> None:
    """Versions, processors, memory, and the packages of this environment."""
    memory = psutil.virtual_memory()
    bundle.add_json(
        "machine.json",
        {
            "broker_ctl": version("broker-ctl"),
            "python": sys.version,
            "platform": platform.platform(),
            "cpus": psutil.cpu_count(),
            "load": psutil.getloadavg(),
            "memory_bytes": memory.total,
            "available_bytes": memory.available,
            "packages": sorted(f"{one.name}=={one.version}" for one in distributions()),
        },
    )


def add_journal(bundle: BundleFile, unit: str) -> None:
    """The newest lines of a unit in systemd's journal."""
    arguments = (
        "journalctl",
        f"--unit={unit}",
        f"--lines={_LINES}",
        "--no-pager",
        "--output=short-iso",
    )
    try:
        done = subprocess.run(  # noqa: S603  no shell
            arguments, capture_output=True, check=False, timeout=_JOURNAL_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        bundle.miss("journal.txt", str(error))
        return
    text = done.stdout.decode(errors="replace")
    if done.returncode or "-- No entries --" in text:
        why = done.stderr.decode(errors="replace").strip() or f"no entries of unit {unit}"
        bundle.miss("journal.txt", why)
    else:
        bundle.add("journal.txt", text, keeps_end=True)


def add_logs(bundle: BundleFile, logs: Sequence[Path]) -> None:
    """The ends of files, in whole lines."""
    for number, file in enumerate(logs):
        name = f"logs/{number}-{file.name}"
        try:
            with file.open("rb") as opened:
                size = opened.seek(0, 2)
                opened.seek(max(0, size - _END_BYTES))
                data = opened.read(_END_BYTES)
        except OSError as error:
            bundle.miss(name, str(error))
            continue
        if size > _END_BYTES:
            # Half a line may be half a secret, which nothing recognizes.
            _, _, data = data.partition(b"\n")
        bundle.add(name, data.decode(errors="replace"), keeps_end=True)

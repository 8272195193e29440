"""The largest resident set that a process ever had."""

from pathlib import Path
from typing import Final

_FIELD: Final = "VmHWM:"
_KIB: Final = 1024
_BYTES_PER_MB: Final = 1e6


def peak_rss_mb(pid: int) -> float:
    """In 10**6 bytes, by the kernel."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(_FIELD):
            return round(int(line.split()[1]) * _KIB / _BYTES_PER_MB, 1)
    raise RuntimeError(f"/proc/{pid}/status has no {_FIELD}")

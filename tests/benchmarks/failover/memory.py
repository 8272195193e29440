"""Resident memory of a process, by the kernel, in 10**6 bytes."""

from pathlib import Path
from typing import Final

_PEAK: Final = "VmHWM:"
_NOW: Final = "VmRSS:"
_SELF: Final = "self"
_RESETS_PEAK: Final = "5"
_KIB: Final = 1024
_BYTES_PER_MB: Final = 1e6


def peak_rss_mb(pid: int | str = _SELF) -> float:
    """The largest resident set that the process had, or since `forget_peak`."""
    return _read(_PEAK, pid)


def rss_mb(pid: int | str = _SELF) -> float:
    """The resident set now."""
    return _read(_NOW, pid)


def forget_peak() -> None:
    """Measure the peak of this process from now on."""
    Path(f"/proc/{_SELF}/clear_refs").write_text(_RESETS_PEAK)


def _read(field: str, pid: int | str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return round(int(line.split()[1]) * _KIB / _BYTES_PER_MB, 1)
    raise RuntimeError(f"/proc/{pid}/status has no {field}")

"""The last lines that servers of a failed test have logged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 6
_MOST_LINES: Final = 15
_MOST_BYTES: Final = 8192


def last_lines(directory: Path, since_s: float) -> Iterator[tuple[str, str]]:
    """Name and end of each log below a directory that was written to since then.

    The newest are the last, at most six; ``since_s`` is a Unix time.
    """
    written: list[tuple[float, Path]] = []
    for path in directory.rglob("*.log"):
        try:
            changed_s = path.stat().st_mtime
        except OSError:  # A server that ends may take its directory along.
            continue
        if changed_s >= since_s:
            written.append((changed_s, path))
    for _, path in sorted(written)[-_MOST_FILES:]:
        try:
            with path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - _MOST_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            continue
        yield path.relative_to(directory).as_posix(), "\n".join(lines[-_MOST_LINES:])

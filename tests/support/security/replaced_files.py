"""Files of secrets that are replaced while a daemon runs."""

from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """As a careful operator does: a whole file takes the place of another."""
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_bytes(content)
    new.rename(path)

"""A support bundle: named texts without secrets in a tar.gz of bounded size."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any, Final

from broker_ctl.cli.diagnosis.redaction import Redaction
from broker_ctl.codec import encode_pretty

_MEMBER_BYTES: Final = 8 * 1024 * 1024
_TOTAL_BYTES: Final = 48 * 1024 * 1024
_MODE: Final = 0o600
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class BundleFile:
    """Collects the members in memory.

    Args:
        top: the directory in the archive.
        at_s: Unix time of all members.
        redaction: of every text.
    """

    def __init__(self, top: str, at_s: float, redaction: Redaction) -> None:
        self._top = top
        self._at_s = at_s
        self._redaction = redaction
        self._members: list[tuple[str, bytes]] = []
        self._rows: list[dict[str, Any]] = []
        self._room = _TOTAL_BYTES

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is in it and what is missing, a row each."""
        return list(self._rows)

    def add(self, name: str, text: str, *, keeps_end: bool = False) -> None:
        """Add a text; one that is too long loses its end, or with ``keeps_end`` its begin."""
        data = self._redaction.of(text).encode(errors="replace")
        room = min(_MEMBER_BYTES, self._room)
        kept = data[max(0, len(data) - room) :] if keeps_end else data[:room]
        self._room -= len(kept)
        self._members.append((name, kept))
        note = "" if len(kept) == len(data) else f"cut from {len(data)} bytes"
        self._rows.append({"name": name, "size_bytes": len(kept), "note": note})

    def add_json(self, name: str, value: Any) -> None:
        """Add a JSON value."""
        self.add(name, encode_pretty(value).decode() + "\n")

    def miss(self, name: str, why: str) -> None:
        """Record that something is missing."""
        self._rows.append({"name": name, "size_bytes": 0, "note": self._redaction.of(why)})

    def write(self, path: Path) -> None:
        """Write the archive; only its owner can read it."""
        manifest = encode_pretty({"members": self._rows}) + b"\n"
        # Of this mode from the first moment: who opens it earlier can read it all later.
        with (
            os.fdopen(os.open(path, _CREATE, _MODE), "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz") as archive,
        ):
            for name, data in (("manifest.json", manifest), *self._members):
                member = tarfile.TarInfo(f"{self._top}/{name}")
                member.size, member.mtime, member.mode = len(data), int(self._at_s), _MODE
                archive.addfile(member, io.BytesIO(data))

"""``broker-ctl audit``: checks and shows the audit log of a daemon on this machine."""

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from broker_ctl.cli.runtime.output import (
    Output,
    chosen_format,
    echo,
    echo_json,
    echo_json_line,
    output_option,
    time_text,
)
from broker_ctl.cli.runtime.verbs import VerbGroup
from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord
from broker_ctl.security.audit.event import MAX_LINE_BYTES

# ``broker-ctl audit tail``: the newest events of an audit log.


_POLL_S: Final = 0.2
_TAIL_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit tail audit.log
  broker-ctl audit tail -n 100 audit.log --output json
  broker-ctl audit tail --follow audit.log
"""


@click.command("tail", short_help="Show the newest events of an audit log.", epilog=_TAIL_EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Number of events.",
)
@click.option("--follow", is_flag=True, help="Show new events too, until Ctrl-C.")
@output_option()
def tail(file: Path, *, lines: int, follow: bool, output: str) -> None:
    """Show the newest events in FILE, oldest first.

    JSON output has one event a line. Events are shown as they are: audit verify checks them.
    """
    with closing(FollowedLog(file)) as log:
        for line in deque(log.new_lines(), maxlen=lines):
            _show(line, output)
        while follow:
            time.sleep(_POLL_S)
            for line in log.new_lines():
                _show(line, output)


def _show(line: bytes, output: str) -> None:
    from broker_ctl.codec import decode_object

    if output == "json" and chosen_format() is Output.JSON:
        echo(line.decode(errors="replace").rstrip("\n"))
        return
    try:
        event = decode_object(line)
        if output == "json":
            echo_json_line(event)
        else:
            echo(_text(event))
    except CorruptRecord:
        echo(f"not an event: {line.decode(errors='replace').rstrip()}")


def _text(event: Mapping[str, Any]) -> str:
    at_ms = event.get("at_ms")
    when = time_text(at_ms) if isinstance(at_ms, int) else "-"
    principal, address = event.get("principal", "anonymous"), event.get("address", "")
    words = (
        when,
        event.get("kind", ""),
        f"{principal}@{address}" if address else "",
        *(event.get(name, "") for name in ("operation", "target", "status")),
        f"lost {event['lost']}" if "lost" in event else "",
        event.get("reason", ""),
        *(f"{name}={event[name]}" for name in ("before", "after") if name in event),
    )
    return "  ".join(str(word) for word in words if word != "")


# ``broker-ctl audit verify``: whether an audit log is complete and unchanged.


_HASH: Final = re.compile(r"[0-9a-f]{64}")
_VERIFY_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit verify audit.log
  broker-ctl audit verify audit.log.2 audit.log.1 audit.log
  broker-ctl audit verify audit.log --output json
"""


def _hash(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is not None and not _HASH.fullmatch(text):
        raise click.BadParameter("64 hexadecimal digits were expected")
    return text


@click.command(
    "verify", short_help="Check the hash chain of an audit log.", epilog=_VERIFY_EXAMPLES
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--expect",
    metavar="HASH",
    callback=_hash,
    help="Hash printed by an earlier check, which must still be in the log.",
)
@output_option()
def verify(files: tuple[Path, ...], expect: str | None, output: str) -> None:
    """Check that no line of FILES, oldest first, was changed, inserted or removed.

    Exit code 1 names the first broken line. Lines removed from the end, and a log that was written
    again as a whole, show only against a hash that is kept elsewhere: give it with --expect.
    """
    from broker_ctl.security.audit.event import BrokenChain, verify

    try:
        found = verify(_lines(files), expect)
    except BrokenChain as broken:
        file, number = _place(files, broken.number)
        if output == "json":
            place = {"file": str(file), "line": number, "reason": broken.reason}
            echo_json({"is_intact": False, **place})
        raise click.ClickException(f"{file}, line {number}: {broken.reason}") from broken
    is_intact = expect is None or found.has_expected
    if output == "json":
        echo_json(
            {
                "is_intact": is_intact,
                "lines": found.lines,
                "first": found.first,
                "last": found.end.sequence,
                "hash": found.end.hash,
            }
        )
    if not is_intact:
        raise click.ClickException("no line has the expected hash: lines are missing, or replaced")
    if output == "table":
        echo(f"{found.lines} lines, {found.first} to {found.end.sequence}, are intact")
        echo(f"hash of the last line: {found.end.hash}")


def _lines(files: Iterable[Path]) -> Iterator[bytes]:
    from broker_ctl.security.audit.event import MAX_LINE_BYTES

    for path in files:
        with path.open("rb") as file:
            # Bounded: a file may be one line that fills the memory.
            while line := file.readline(MAX_LINE_BYTES + 2):
                yield line


def _place(files: tuple[Path, ...], number: int) -> tuple[Path, int]:
    """The file and its line of a line's number in all files."""
    for path in files[:-1]:
        lines = sum(1 for _ in _lines([path]))
        if number <= lines:
            return path, number
        number -= lines
    return files[-1], number


# ``broker-ctl audit``: checks and shows the audit log of a daemon on this machine.


_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit verify audit.log.2 audit.log.1 audit.log
  broker-ctl audit tail --follow audit.log
"""


@click.group(cls=VerbGroup, epilog=_EXAMPLES)
def command() -> None:
    """Check and show the files that a daemon writes with auditFile."""


command.add_command(verify)
command.add_command(tail)


# An audit log that is read while its daemon writes and rotates it.


# A rotation leaves one number without a file at a time.
_MAX_MISSING: Final = 2


class FollowedLog:
    """Reads each line once, also if the log is rotated several times between two calls.

    Lines of files that were deleted before they were read are missing.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: BinaryIO = path.open("rb")
        self._newer: deque[BinaryIO] = deque()
        self._last_line = b""

    def close(self) -> None:
        """Close all files."""
        for file in (self._opened, *self._newer):
            file.close()

    def new_lines(self) -> Iterator[bytes]:
        """The whole lines since the last call, oldest first.

        Raises:
            OSError: a file cannot be read.
        """
        # First: what was written before the rotation is read too.
        is_rotated = self._is_rotated()
        yield from self._read()
        if is_rotated:
            self._open_newer()
        while self._newer:
            self._opened.close()
            self._opened = self._newer.popleft()
            yield from self._read()

    def _read(self) -> Iterator[bytes]:
        """The lines up to the last newline; an unfinished one is left for the next call."""
        file = self._opened
        while True:
            line = file.readline(MAX_LINE_BYTES + 2)
            if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
                file.seek(-len(line), os.SEEK_CUR)
                return
            self._last_line = line
            yield line

    def _is_rotated(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._opened.fileno()))
        except FileNotFoundError:
            # Between two steps of a rotation.
            return False

    def _open_newer(self) -> None:
        """Open the files after the one that was read, which may have been deleted meanwhile.

        From the newest to older ones: a rotation meanwhile moves files only in this direction, so
        that none is passed over, and one that is met twice is known.
        """
        last = _sequence(self._last_line)
        known = [os.fstat(self._opened.fileno())]
        number = missing = 0
        while missing < _MAX_MISSING:
            try:
                file = self._numbered(number).open("rb")
            except FileNotFoundError:
                missing += 1
                number += 1
                continue
            missing, status = 0, os.fstat(file.fileno())
            if os.path.samestat(status, known[0]) or (number and 0 < _first(file) <= last):
                file.close()
                return
            if any(os.path.samestat(status, other) for other in known):
                file.close()
            else:
                known.append(status)
                self._newer.appendleft(file)
            number += 1

    def _numbered(self, number: int) -> Path:
        name = self._path.name
        return self._path.with_name(f"{name}.{number}") if number else self._path


def _first(file: BinaryIO) -> int:
    """The sequence number of a file's first line; 0: it has none."""
    line = file.readline(MAX_LINE_BYTES + 2)
    file.seek(0)
    return _sequence(line)


def _sequence(line: bytes) -> int:
    try:
        sequence = decode_object(line).get("sequence")
    except CorruptRecord:
        return 0
    return sequence if isinstance(sequence, int) else 0

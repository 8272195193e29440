"""``broker-ctl audit verify``: whether an audit log is complete and unchanged."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from broker_ctl.cli.runtime.formats import output_option
from broker_ctl.cli.runtime.output import echo, echo_json

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_EXAMPLES: Final = """\b
Examples:
  broker-ctl audit verify audit.log
  broker-ctl audit verify audit.log.2 audit.log.1 audit.log
  broker-ctl audit verify audit.log --output json
"""


def _hash(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    if text is not None and not _HASH.fullmatch(text):
        raise click.BadParameter("64 hexadecimal digits were expected")
    return text


@click.command("verify", short_help="Check the hash chain of an audit log.", epilog=_EXAMPLES)
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
def command(files: tuple[Path, ...], expect: str | None, output: str) -> None:
    """Check that no line of FILES, oldest first, was changed, inserted or removed.

    Exit code 1 names the first broken line. Lines removed from the end, and a log that was written
    again as a whole, show only against a hash that is kept elsewhere: give it with --expect.
    """
    from broker_ctl.security.audit.chain import BrokenChain, verify

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
    from broker_ctl.security.audit.chain import MAX_LINE_BYTES

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

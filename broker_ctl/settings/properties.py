"""The text of a broker.conf: lines of ``key=value``, as Java's properties and Pulsar write them.

Lines that start with ``#`` or ``!`` are comments. A backslash at the end of a line continues it.
Blanks around key and value are dropped; two backslashes mean one.
"""

import re
from collections.abc import Iterator
from typing import Final

from broker_ctl.settings.schema import Entry, Problem

_BLANKS: Final = " \t\r\f"
_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def parse(text: str, name: str) -> tuple[list[Entry], list[Problem]]:
    """Parse the file called ``name``; returns its entries and the problems of its lines.

    A repeated key is a problem; its first value counts.
    """
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for number, line in _logical_lines(text):
        origin = f"{name}:{number}"
        key, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not equals:
            problems.append(Problem(origin, "", "", "there is no '=' in the line"))
        elif not _KEY.fullmatch(key):
            problems.append(Problem(origin, "", "", "the text before '=' is not a key"))
        elif key in entries:
            first = entries[key].origin.rpartition(":")[2]
            message = f"given twice, in lines {first} and {number}"
            problems.append(Problem(origin, key, "", message))
        else:
            entries[key] = Entry(key, value.replace("\\\\", "\\"), origin)
    return list(entries.values()), problems


def line_of(key: str, value: str) -> str:
    """The line that `parse` reads as this entry."""
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued lines joined, by the number of their first line."""
    joined, first = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(_BLANKS)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined

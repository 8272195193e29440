"""The commands of a page, and what the page says that they show.

Fences of ``sh`` and ``console`` are typed, from the first to the last of a page; a fence of
``text`` shows what the one before it prints. What a reader brings is said in comments of the page,
which no reader sees, each before the fence that it is about:

``<!-- documents: cluster [COUNT] [SETTING ...] -->``
    The page is about a cluster that serves: broker-1:8080 to broker-3:8080, and zk1:2181. Its files
    are in ``$CLUSTER``. ``{directory}`` and ``{name}`` in a setting are those of each daemon.
``<!-- documents: in a clone -->``
    The page is typed in a clone of the repository; others begin in an empty directory.
``<!-- documents: before COMMANDS -->``
    What the reader has done: commands, on as many lines as they need.
``<!-- documents: reader OLD=NEW -->``
    What is the reader's own: from here on NEW is typed where the page has OLD.
``<!-- documents: saved as NAME -->``
    The reader saves the next fence, of whatever kind, in a file of this name.
``<!-- documents: not run: WHY -->``
    The next fence is not typed, and why; before the heading of the page: none of the page is.
``<!-- documents: stays [until TEXT] -->``
    The last command of the next fence goes on in its terminal; what follows is typed in another, as
    soon as it has printed the text and what the page shows.
``<!-- documents: Ctrl-C -->``
    The next fence shows what the command that goes on prints after Ctrl-C.
``<!-- documents: again -->``
    The last command of the next fence is repeated until it shows what the page has.
``<!-- documents: exits N -->``
    The exit code of the next fence's last command, where it is not 0, nor 1 after an ``Error:``
    that the page shows.
"""

import base64
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

_PART: Final = re.compile(
    r"^<!-- documents: (?P<said>.*?) ?-->\n"
    r"|^(?P<indent> *)(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<body>.*?)^ *(?P=fence)\n",
    re.MULTILINE | re.DOTALL,
)
_TYPED: Final = frozenset({"sh", "console"})
_EXPLAINED: Final = "not run: "


class Ends(Enum):
    """When the next command can be typed."""

    BY_ITSELF = "by itself"
    NEVER = "never"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Step:
    """Commands that are typed one after the other, and the lines that they show.

    Attributes:
        line: of the page, from 1.
        shown: None where the page shows nothing.
        code: the exit code of the last command.
        until: what a command that goes on has printed when the next one is typed.
        interrupts: nothing is typed but Ctrl-C, to what goes on.
        is_hidden: the page does not have it: it is what a reader has done before.
    """

    line: int
    commands: tuple[str, ...]
    shown: str | None = None
    ends: Ends = Ends.BY_ITSELF
    code: int = 0
    until: str = ""
    interrupts: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Unrun:
    """A fence that is not typed, and why."""

    line: int
    why: str


@dataclass(slots=True)
class Page:
    """What is typed for a page.

    Attributes:
        cluster: settings of the daemons that serve meanwhile; None: there are none.
        is_in_clone: it is typed in a clone of the repository, and not in an empty directory.
    """

    steps: list[Step] = field(default_factory=list)
    unrun: list[Unrun] = field(default_factory=list)
    cluster: tuple[str, ...] | None = None
    brokers: int = 3
    is_in_clone: bool = False


class PageError(Exception):
    """A page says something about its commands that has no meaning."""


@dataclass(slots=True)
class _Said:
    """What the comments before a fence say of it."""

    why_not: str | None = None
    ends: Ends = Ends.BY_ITSELF
    code: int = 0
    until: str = ""
    interrupts: bool = False
    saved_as: str = ""


def read_page(text: str) -> Page:
    """The commands of a page in order.

    Raises:
        PageError: a comment of this kind that nobody knows, or that no fence follows.
    """
    page, said, reader = Page(), _Said(), dict[str, str]()
    whole: str | None = None
    # A fence of text shows what the fence right before it prints.
    is_answered = True
    heading = re.search(r"^# ", text, re.MULTILINE)
    start = heading.start() if heading else 0
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["said"] is not None:
            words = part["said"]
            if words.startswith(_EXPLAINED) and part.start() < start:
                whole = words.removeprefix(_EXPLAINED)
            else:
                _hear(words, said, page, reader, line)
            continue
        kind, body = part["kind"].strip(), _dedented(part["body"], len(part["indent"]))
        why = said.why_not or whole
        if kind in _TYPED and why is not None:
            page.unrun.append(Unrun(line, why))
            is_answered = True
        elif kind in _TYPED or said.saved_as:
            page.steps += _steps(kind, _replaced(body, reader), line, said)
            is_answered = kind != "sh"
        elif kind == "text" and said.interrupts:
            page.steps.append(Step(line, (), body, interrupts=True))
        elif kind == "text" and not is_answered and said.why_not is None:
            page.steps[-1] = _showing(page.steps[-1], body)
            is_answered = True
        said = _Said()
    if whole is not None:
        page.steps.clear()
    if said != _Said():
        raise PageError(f"no fence follows {said}")
    return page


def _hear(words: str, said: _Said, page: Page, reader: dict[str, str], line: int) -> None:
    verb, _, rest = words.partition(" ")
    if words.startswith(_EXPLAINED):
        said.why_not = words.removeprefix(_EXPLAINED)
    elif verb == "cluster":
        counts = [int(word) for word in rest.split() if word.isdigit()]
        page.brokers = counts[0] if counts else page.brokers
        page.cluster = tuple(word for word in rest.split() if not word.isdigit())
    elif words == "in a clone":
        page.is_in_clone = True
    elif verb.split("\n")[0] == "before":
        typed = words.removeprefix("before").strip()
        page.steps.append(Step(line, tuple(commands(_replaced(typed, reader))), is_hidden=True))
    elif verb == "reader":
        old, _, new = rest.partition("=")
        reader[old] = new
    elif not _hear_of_fence(words, said):
        raise PageError(f"line {line}: documents: {words}")


def _hear_of_fence(words: str, said: _Said) -> bool:
    """What is about the next fence alone; False: this is not."""
    verb, _, rest = words.partition(" ")
    if verb == "stays":
        said.ends, said.until = Ends.NEVER, rest.removeprefix("until ")
    elif words == "again":
        said.ends = Ends.AGAIN
    elif words == "Ctrl-C":
        said.interrupts = True
    elif words.startswith("saved as "):
        said.saved_as = words.removeprefix("saved as ")
    elif verb == "exits" and rest.isdigit():
        said.code = int(rest)
    else:
        return False
    return True


def _steps(kind: str, body: str, line: int, said: _Said) -> Iterator[Step]:
    if said.saved_as:
        yield Step(line, (_saving(body, said.saved_as),), is_hidden=True)
        return
    if kind == "sh":
        yield Step(line, tuple(commands(body)), None, said.ends, said.code, said.until)
        return
    # A prompt, what is typed, and what it prints.
    for found in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        at = line + 1 + body.count("\n", 0, found.start())
        code = 1 if found[2].startswith("Error: ") else said.code
        yield Step(at, (found[1],), found[2] or None, said.ends, code)


def _saving(body: str, name: str) -> str:
    packed = base64.b64encode(body.encode()).decode()
    return f"echo {packed} | base64 -d > {shlex.quote(name)}"


def _showing(step: Step, body: str) -> Step:
    return replace(step, shown=body)


def _dedented(body: str, indent: int) -> str:
    return "".join(line.removeprefix(" " * indent) for line in body.splitlines(keepends=True))


def _replaced(body: str, reader: dict[str, str]) -> str:
    for old, new in reader.items():
        body = body.replace(old, new)
    return body


def commands(body: str) -> Iterator[str]:
    """The commands of a script, those of several lines whole."""
    held = ""
    for line in body.splitlines():
        held += line
        if re.search(r"(\\|&&|\|)$", line):
            held += "\n"
        elif held.strip() and not held.lstrip().startswith("#"):
            yield held
            held = ""
        else:
            held = ""
    if held:
        yield held

"""Every command of README, tutorial and guides does what its page shows, against real processes.

Each page is played in a world of its own; see `tests.support.documents`. There is no list here: a
page is played, or says of each of its commands why not.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from broker_ctl.cli.main import main
from tests.support.documents.pages import PageError, read_page
from tests.support.documents.play import UNSHARE
from tests.support.documents.shown import differences
from tests.support.documents.stage import TYPED

ROOT: Final = Path(__file__).parents[2]
TEXTS: Final = {
    path: path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
        *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    )
}
PAGES: Final = {path: read_page(text) for path, text in TEXTS.items()}
PLAYED: Final = [path for path, page in PAGES.items() if page.steps]
# Tests there start what they type at: daemons, servers, Spark.
REAL: Final = ("end_to_end", "pulsar", "security", "pipeline")
LIMIT_S: Final = 1_500.0
_NEEDS: Final = ("ip", "mount", "unshare")


def why_no_world() -> str | None:
    """Why this machine grants no network and no directories of one's own; None: it does."""
    if os.geteuid() != 0:
        return "a page's own network needs root"
    if absent := [tool for tool in _NEEDS if shutil.which(tool) is None]:
        return f"{', '.join(absent)}: no such command"
    tried = subprocess.run((*UNSHARE, "true"), capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


@pytest.mark.slow
@pytest.mark.documents
@pytest.mark.skipif(why_no_world() is not None, reason=str(why_no_world()))
@pytest.mark.parametrize("path", PLAYED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_does_what_it_shows(path: Path, tmp_path: Path) -> None:
    command = (*UNSHARE, sys.executable, "-m", "tests.support.documents.play", path, tmp_path)
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    came = json.loads(done.stdout)
    assert came["faults"] == [], "\n".join(came["faults"])
    assert came["typed"]


def test_every_page_with_commands_is_played_or_says_why_not() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path, text in TEXTS.items()
        if re.search(r"^ *```(?:sh|console)$", text, re.MULTILINE)
        if not PAGES[path].steps and not PAGES[path].unrun
    ]
    assert silent == []
    assert len(PLAYED) > 5


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each verb that is no group."""
    if not isinstance(command, click.Group):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None, name
        yield from leaves(below, (*words, name))


def test_every_verb_is_typed_by_a_page_or_at_real_processes() -> None:
    steps = (step for page in PAGES.values() for step in page.steps)
    typed = "\n".join((*TYPED, *(command for step in steps for command in step.commands)))
    files = (file for room in REAL for file in (ROOT / "tests" / room).rglob("*.py"))
    tests = "\n".join(file.read_text(encoding="utf-8") for file in files)

    def is_typed(words: tuple[str, ...]) -> bool:
        in_tests = ", ".join(f'"{word}"' for word in words)
        page = rf"broker-ctl {' '.join(words)}(?![\w-])"
        return re.search(page, typed) is not None or in_tests in tests

    found = list(leaves(main))
    assert len(found) > 100
    assert [" ".join(words) for words in found if not is_typed(words)] == []


def test_a_comment_that_nobody_knows_is_refused() -> None:
    with pytest.raises(PageError, match="documents: perhaps"):
        read_page("# A page\n<!-- documents: perhaps -->\n```sh\ntrue\n```\n")
    with pytest.raises(PageError, match="no fence follows"):
        read_page("# A page\n<!-- documents: not run: why -->\n")


def test_a_page_is_read_in_the_order_of_its_fences() -> None:
    page = read_page(
        "<!-- documents: cluster 4 a=b -->\n# A page\n"
        "<!-- documents: before touch x -->\n"
        "<!-- documents: reader OLD=new one -->\n"
        "```sh\necho OLD\n# what follows is one\necho a \\\n  b\n```\ntext\n```text\nnew one\n```\n"
        "<!-- documents: not run: for a reason -->\n```sh\nfalse\n```\n"
        "```console\n$ true\n$ ls y\nError: no y\n```\n"
    )
    assert (page.brokers, page.cluster) == (4, ("a=b",))
    assert [step.commands for step in page.steps] == [
        *(("touch x",), ("echo new one", "echo a \\\n  b"), ("true",), ("ls y",)),
    ]
    assert [step.shown for step in page.steps] == [None, "new one\n", None, "Error: no y\n"]
    assert [step.code for step in page.steps] == [0, 0, 0, 1]
    assert [each.why for each in page.unrun] == ["for a reason"]


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("12 splits at 127.0.0.1:5 in 0.5 s", "1 split at 127.0.0.1:77 in 12.25 s"),
        ("a ... z", "a b c z"),
        ("first\n...\nlast", "first\nmore\nand more\nlast"),
        ("  a   b\n ─────\n  x   1\n  y   -", "  a     b\n ───────\n  y     3\n  x   4,000"),
        ("  a   b\n ─────\n  x   1\n  ...", "  a   b\n ─────\n  x   1\n  x   2\n  x   3"),
        ("done", "\x1b[32mdone\x1b[0m\r\n"),
    ],
)
def test_what_differs_from_run_to_run_is_left_aside(shown: str, came: str) -> None:
    assert list(differences(shown, came)) == []


@pytest.mark.parametrize(
    ("shown", "came"),
    [
        ("12 splits", "12 merges"),
        ("one line", "one line\nand another"),
        ("one line\nand another", "one line"),
        ("  a   b\n ─────\n  x   1", "  a   b\n ─────\n  x   1\n  y   2"),
        ("  a   b\n ─────\n  x   1", "  a   c\n ─────\n  x   1"),
        ("", "something"),
    ],
)
def test_other_words_lines_and_rows_are_differences(shown: str, came: str) -> None:
    assert len(list(differences(shown, came))) == 1

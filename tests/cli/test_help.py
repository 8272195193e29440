"""--help of every verb: a whole sentence, examples, exit codes."""

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import SECTIONS, main


def verbs(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each verb and of each group."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from verbs(below, (*words, name))


@pytest.mark.parametrize("words", list(verbs(main)), ids=" ".join)
def test_every_verb_says_what_it_is_for_how_it_is_typed_and_how_it_ends(
    words: tuple[str, ...],
) -> None:
    result = CliRunner().invoke(main, [*words, "--help"], terminal_width=80)
    assert result.exit_code == 0, result.output
    usage, text, *_ = result.output.split("\n\n")
    assert usage.startswith("Usage: ")
    sentence = " ".join(text.split())
    assert "." in sentence
    listed = result.output.partition("Options:")[2].partition("Examples:")[0]
    assert not re.search(r"^  [a-z-]+ +.*\.\.\.$", listed, re.MULTILINE)
    assert ("\n\nConnection:\n" in result.output) == ("--allow-cleartext" in result.output)
    examples = result.output.partition("Examples:")[2]
    assert f"broker-ctl {' '.join(words)}".strip() in examples
    assert "xit code" in result.output


@pytest.mark.parametrize("words", ["bundles move", "isolation-policies get", "partitions list"])
def test_a_verb_of_a_group_has_its_own_examples(words: str) -> None:
    result = CliRunner().invoke(main, [*words.split(), "--help"], prog_name="broker-ctl")
    examples = result.output.partition("Examples:")[2].partition("Exit codes")[0]
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert lines
    assert all(f"{line} ".startswith(f"broker-ctl {words} ") for line in lines)
    group = (
        CliRunner()
        .invoke(main, [words.split(maxsplit=1)[0], "--help"], prog_name="broker-ctl")
        .output
    )
    assert group.count(f"broker-ctl {words.split(maxsplit=1)[0]} ") > len(lines)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("drian", "Did you mean drain or undrain?"),
        ("bundles unlaod", "Did you mean unload?"),
        ("pipeline prfile", "Did you mean profile?"),
        ("xyzzy", "No such command 'xyzzy'.\n"),
    ],
)
def test_a_word_that_is_no_verb_has_those_like_it_in_its_error(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, typed.split())
    assert result.exit_code == 2
    assert meant in result.output


def test_verbs_are_listed_by_what_somebody_is_doing() -> None:
    result = CliRunner().invoke(main, ["--help"])
    titles = re.findall(r"^(\w.*):$", result.output, re.MULTILINE)
    assert titles == ["Options", *SECTIONS]
    for title, listed in SECTIONS.items():
        text = result.output.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  ([a-z-]+)", text, re.MULTILINE) == [*listed]


def test_the_list_of_verbs_imports_none_of_them() -> None:
    program = """
import sys
from broker_ctl.cli.main import main
main(["--help"], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "  rollout  " in done.stdout
    verbs = {verb.place.partition(":")[0] for verbs in SECTIONS.values() for verb in verbs.values()}
    assert verbs & {*done.stderr.split()} == set()

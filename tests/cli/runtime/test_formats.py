"""--output and --watch of a verb of a group of its own."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from broker_ctl.cli.runtime import verbs
from broker_ctl.cli.runtime.output import Output, echo, echo_json, output_option
from broker_ctl.cli.runtime.target import Target
from broker_ctl.cli.runtime.verbs import confirm, is_on_screen, watch_option
from broker_ctl.errors import HttpError

VALUE = {"name": "a: b", "load_bytes": 2048, "rows": [{"x": None}, {"x": "\x1b[31m", "y": [1]}]}


@click.command()
@output_option()
def show(output: str) -> None:
    if output == "json":
        echo_json(VALUE)
    else:
        echo("a table")


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("table", "a table\n"),
        ("json", '{\n  "name": "a: b",\n  "load_bytes": 2048,\n  "rows": ['),
        ("yaml", "name: 'a: b'\nload_bytes: 2048\nrows:\n- x: null\n- x: \"\\e[31m\"\n"),
    ],
)
def test_a_verb_with_json_has_yaml_too(format_: str, expected: str) -> None:
    assert CliRunner().invoke(show, ["--output", format_]).stdout.startswith(expected)


def test_wide_shows_every_field_with_its_unit_and_escapes_names() -> None:
    text = CliRunner().invoke(show, ["--output", "wide"]).stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["load", "2.0", "KiB"] in lines
    assert ["x", "y"] in lines
    assert ["\\x1b[31m", "[1]"] in lines
    assert "\x1b" not in text


class Rounds:
    """What each round of a watched verb does, until Ctrl-C."""

    def __init__(self, *errors: BaseException | None) -> None:
        self._left: Iterator[BaseException | None] = iter(errors)

    def show(self) -> None:
        error = next(self._left, None)
        if error is not None:
            raise error
        echo("shown")


def watch(rounds: Rounds, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    left = iter(range(count - 1))

    def pause(_: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "pause", pause)

    @click.command()
    @watch_option
    @output_option()
    def verb(output: str) -> None:
        del output
        rounds.show()

    result = CliRunner().invoke(verb, ["--watch"])
    return result.exit_code, result.stdout, result.stderr


def test_a_failed_round_is_reported_and_the_next_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(None, HttpError("away"), click.ClickException("gone"), SystemExit(1))
    code, out, err = watch(rounds, 5, monkeypatch)
    assert (code, out) == (0, "shown\nshown\n")
    assert err == "away\ngone\n"


def test_a_failed_first_round_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = watch(Rounds(click.ClickException("no such topic")), 3, monkeypatch)
    assert (code, out, err) == (1, "", "Error: no such topic\n")


def test_a_watched_verb_changes_nothing() -> None:
    @click.command()
    @watch_option
    @output_option()
    def act(output: str) -> None:
        target = Target("http://127.0.0.1:1", None, Output(output))
        confirm(target, "drain it", dry_run=False, yes=True)
        raise AssertionError("confirmed")

    result = CliRunner().invoke(act, ["--watch"])
    assert result.exit_code == 2
    assert "--watch only shows" in result.stderr


def test_the_terminal_is_cleared_when_what_comes_next_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []

    @click.command()
    @watch_option
    @output_option()
    def verb(output: str) -> None:
        del output
        assert is_on_screen()
        assert not drawn
        echo("shown")

    def pause(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "pause", pause)
    monkeypatch.setattr(click, "clear", lambda: drawn.append("clear"))
    monkeypatch.setattr(verbs, "_is_terminal", lambda: True)
    result = CliRunner().invoke(verb, ["--watch"])
    assert (result.exit_code, result.stdout, drawn) == (0, "shown\n", ["clear"])

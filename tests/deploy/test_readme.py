"""What the README tells people to type exists, and what it links to does too."""

import re
import shlex
from pathlib import Path

import click
import pytest

from broker_ctl.cli.main import main
from broker_ctl.daemon import exit_codes
from broker_ctl.settings.root import DECLARATIONS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()

INSTALL = "python3 -m venv .venv && .venv/bin/pip install -c deploy/constraints.txt -e"
# Words in this shape that are no settings.
NO_KEYS = {"tickTime"}


def commands() -> list[list[str]]:
    """Everything that is typed after ``broker-ctl``, without comments."""
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
    typed = re.findall(r"\bbroker-ctl (.+)$", blocks, re.MULTILINE)
    typed += re.findall(r"`broker-ctl ([^`]+)`", README)
    return [shlex.split(text, comments=True) for text in typed]


def keys() -> set[str]:
    """Settings in examples and in the text."""
    examples = re.findall(r"^([a-z]+[A-Z]\w+)=", README, re.MULTILINE)
    return {*examples, *re.findall(r"`([a-z]+[A-Z]\w+\*?)(?:=[^`]*)?`", README)} - NO_KEYS


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The verb that is meant, and what is left for it."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no verb {words[0]}"
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_and_its_options_exist(words: list[str]) -> None:
    command, rest = resolve(words)
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    assert {word for word in rest if word.startswith("-")} <= options
    assert not isinstance(command, click.Group) or not rest


@pytest.mark.parametrize(
    "option", ["--dir", "--brokers", "--ensemble", "--headless", "--zookeeper"]
)
def test_an_option_of_quickstart_exists(option: str) -> None:
    assert option in README
    command, _ = resolve(["quickstart"])
    assert option in {name for param in command.params for name in param.opts}


@pytest.mark.parametrize("key", sorted(keys()))
def test_a_setting_exists(key: str) -> None:
    stem = key.removesuffix("*")
    assert any(known == key or (stem != key and known.startswith(stem)) for known in DECLARATIONS)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_a_link_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_the_table_of_exit_codes_is_that_of_the_daemon() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    usage_error = click.UsageError.exit_code
    ours = {value for name, value in vars(exit_codes).items() if name.isupper()}
    assert told == {*ours, usage_error}


def test_the_two_commands_that_people_begin_with() -> None:
    assert f"{INSTALL} '.[embedded]' && .venv/bin/broker-ctl quickstart\n" in README
    assert f"{INSTALL} '.[embedded,pipeline,test]' && .venv/bin/pytest\n" in README

"""What becomes a word of the command that restarts a broker."""

import re

import pytest

from broker_ctl.cli.rollout_driver import CommandHook, systemd_hook
from broker_ctl.errors import RestartFailed
from tests.core.model.test_web_address import HOSTILE

TEMPLATES = (
    "ssh {host} sudo systemctl restart broker-ctl",
    "restart --broker {broker}",
    "restart --port={port} {port}",
    "{host}{port}",
)


@pytest.mark.parametrize("broker_id", HOSTILE)
async def test_an_id_that_is_none_runs_nothing(broker_id: str) -> None:
    hooks = [CommandHook.parse(text, 1.0) for text in TEMPLATES]
    for hook in (*hooks, systemd_hook("broker-ctl@{port}", 1.0)):
        with pytest.raises(RestartFailed, match=re.escape("is not host:port")):
            await hook.restart(broker_id)


@pytest.mark.parametrize("broker_id", ["b-1.example.com:8080", "_b:1", "[::1]:80", "10.0.0.1:1"])
def test_no_word_that_an_id_begins_is_an_option(broker_id: str) -> None:
    for text in TEMPLATES:
        hook = CommandHook.parse(text, 1.0)
        filled = hook.words_for(broker_id)
        assert len(filled) == len(hook.words)
        begun = [word for raw, word in zip(hook.words, filled, strict=True) if raw[0] == "{"]
        assert begun
        assert not any(word.startswith("-") for word in begun)


def test_the_places_of_a_command_are_filled() -> None:
    hook = CommandHook.parse("ssh {host} restart {broker} --port={port}", 1.0)
    assert hook.words_for("b:1") == ["ssh", "b", "restart", "b:1", "--port=1"]

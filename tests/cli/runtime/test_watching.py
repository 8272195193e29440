"""What --watch does with Ctrl-C."""

import os
import signal
import sys

import click
import pytest
from click.testing import CliRunner

from broker_ctl.cli.runtime.verbs import watch_option


class _Interrupting:
    """Is interrupted while it is finalised, where Python drops exceptions."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_interrupt_ends_the_rounds_even_if_python_drops_it(
    monkeypatch: pytest.MonkeyPatch, *, is_dropped: bool
) -> None:
    rounds: list[int] = []
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: dropped.append(found.exc_value))

    @click.command()
    @watch_option
    def verb() -> None:
        rounds.append(1)
        assert len(rounds) < 5
        if len(rounds) == 2 and is_dropped:
            _Interrupting()
        elif len(rounds) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    result = CliRunner().invoke(verb, ["--watch", "--interval", "0.1"])
    assert (result.exit_code, len(rounds)) == (0, 2), result.output
    assert [type(error) for error in dropped] == [KeyboardInterrupt] * is_dropped
    assert signal.getsignal(signal.SIGINT) is before

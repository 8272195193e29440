"""How the driver of a rollout restarts one broker."""

import asyncio
import shlex
from dataclasses import dataclass
from typing import Final, Protocol, Self

import click

from broker_ctl.core.model.web_address import is_broker_id
from broker_ctl.errors import RestartFailed

_KILL_S: Final = 5.0
_MOST_OUTPUT: Final = 300


class RestartHook(Protocol):
    """Restarts a broker that is empty; a second restart of the same one does no harm."""

    async def restart(self, broker_id: str) -> None:
        """Return once the broker was asked to stop and start again.

        Raises:
            RestartFailed: the message says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommandHook:
    """Runs a command without a shell.

    Attributes:
        words: of the command; ``{broker}``, ``{host}`` and ``{port}`` stand for the broker's.
        timeout_s: seconds until it is killed.
    """

    words: tuple[str, ...]
    timeout_s: float

    @classmethod
    def parse(cls, text: str, timeout_s: float) -> Self:
        """Read a command line with quotes as a shell would.

        Raises:
            BadParameter: the quotes do not match, or there is no command.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--restart-command") from error
        if not words:
            raise click.BadParameter("no command", param_hint="--restart-command")
        return cls(words, timeout_s)

    def words_for(self, broker_id: str) -> list[str]:
        """The command that restarts a broker.

        Raises:
            RestartFailed: its id is not ``host:port``, and could be an option of the command.
        """
        if not is_broker_id(broker_id):
            raise RestartFailed(f"{broker_id!r} is not host:port, and becomes no word of a command")
        host, _, port = broker_id.rpartition(":")
        places = {"{broker}": broker_id, "{host}": host, "{port}": port}
        return [_filled(word, places) for word in self.words]

    async def restart(self, broker_id: str) -> None:
        """See `RestartHook.restart`."""
        words = self.words_for(broker_id)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise RestartFailed(f"{words[0]} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(self.timeout_s):
                _, errors = await process.communicate()
        except TimeoutError as error:
            raise RestartFailed(f"{words[0]} took more than {self.timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.wait_for(process.wait(), _KILL_S)
        if process.returncode:
            said = errors.decode(errors="replace").strip()[-_MOST_OUTPUT:]
            raise RestartFailed(
                f"{words[0]} ended with exit code {process.returncode}"
                + (f": {said}" if said else "")
            )


def systemd_hook(unit: str, timeout_s: float) -> CommandHook:
    """Restarts a unit of this machine; ``{port}`` may be in its name."""
    return CommandHook(("systemctl", "restart", unit), timeout_s)


def _filled(word: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word

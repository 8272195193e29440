"""Status of one ZooKeeper server from ``srvr``, a command that every release allows.

A server that is up and has no quorum accepts connections but opens no session. A client that only
connects cannot distinguish it from a slow server; ``srvr`` can.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.addresses import Server, look_up_all
from broker_ctl.store.zookeeper.four_letter_words import send_word

log = logging.getLogger(__name__)

LIMIT_S: Final = 3.0
_NO_QUORUM: Final = "not currently serving requests"
_TEXT: Final = 200


class State(StrEnum):
    """Role of the server in the ensemble."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    STANDALONE = "standalone"
    READ_ONLY = "read-only"
    NOT_SERVING = "not serving"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


# A server that knows its leader is part of a quorum.
LED: Final = frozenset({State.LEADER, State.FOLLOWER, State.OBSERVER, State.STANDALONE})


@dataclass(frozen=True, slots=True)
class Standing:
    """Status that one server reports.

    Attributes:
        zxid: of its newest transaction, as the server prints it.
        note: why the rest is not known.
    """

    server: str
    state: State
    version: str = ""
    zxid: str = ""
    connections: str = ""
    note: str = ""


async def ask_all(
    hosts: Sequence[tuple[str, int]],
    *,
    limit_s: float = LIMIT_S,
    tls: ssl.SSLContext | None = None,
) -> list[Standing]:
    """Ask all servers concurrently, each at each address of its name, in the order of ``hosts``."""
    servers = await look_up_all(hosts, limit_s)
    async with asyncio.TaskGroup() as group:
        asking = [
            group.create_task(ask(server, limit_s=limit_s, tls=tls), name=f"srvr {server}")
            for server in servers
        ]
    return [one.result() for one in asking]


class Outlook:
    """Status of the servers while no session can be opened.

    ``report`` is called with the number of servers that are up without a quorum, and with 0 once
    there is a session.
    """

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        tls: ssl.SSLContext | None,
        report: Callable[[int], None] | None,
    ) -> None:
        self._hosts = hosts
        self._tls = tls
        self._report = report
        self._outages = 0

    async def look(self) -> None:
        """Ask all servers, and log the status of each."""
        outage = self._outages
        standings = await ask_all(self._hosts, tls=self._tls)
        each = "; ".join(f"{one.server} {one.state} {one.note}".rstrip() for one in standings)
        log.warning("ZooKeeper: %s (%s)", verdict(standings)[1], each)
        # The outage may have ended while a silent server was waited for.
        if self._report is not None and outage == self._outages:
            self._report(sum(one.state is State.NOT_SERVING for one in standings))

    def on_session(self) -> None:
        """A server has granted a session, so it has a quorum."""
        self._outages += 1
        if self._report is not None:
            self._report(0)


async def ask(
    server: Server, *, limit_s: float = LIMIT_S, tls: ssl.SSLContext | None = None
) -> Standing:
    """Ask one server; a failure is part of the result."""
    try:
        answer = await send_word(server, "srvr", limit_s=limit_s, tls=tls)
    except TimeoutError:
        return Standing(str(server), State.UNREACHABLE, note=f"no answer within {limit_s:g} s")
    except OSError as error:
        return Standing(str(server), State.UNREACHABLE, note=str(error))
    return read(str(server), answer)


def read(server: str, reply_text: str) -> Standing:
    """Parse the answer to ``srvr``."""
    if _NO_QUORUM in reply_text:
        return Standing(server, State.NOT_SERVING, note="it is up and has no quorum")
    facts = {
        key.strip(): value.strip() for key, _, value in map(_split_line, reply_text.splitlines())
    }
    mode = facts.get("Mode", "")
    known = next((state for state in LED | {State.READ_ONLY} if state == mode), None)
    if known is None:
        note = " ".join(reply_text.split())[:_TEXT] or "an empty answer"
        return Standing(server, State.UNKNOWN, note=note)
    return Standing(
        server,
        known,
        version=facts.get("Zookeeper version", "").partition("-")[0],
        zxid=facts.get("Zxid", ""),
        connections=facts.get("Connections", ""),
    )


def _split_line(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def verdict(standings: Sequence[Standing]) -> tuple[bool, str]:
    """Whether the ensemble serves, and a sentence for the operator."""
    led = [one for one in standings if one.state in LED]
    leader = next((one for one in led if one.state in {State.LEADER, State.STANDALONE}), None)
    up = [one for one in standings if one.state is State.NOT_SERVING]
    count = len(standings)
    if leader is not None and len(led) == count:
        return True, f"{leader.server} is the {leader.state}; all {count} serve"
    if led:
        who = "a leader that is not asked here" if leader is None else leader.server
        return True, f"led by {who}; {len(led)} of {count} serve"
    if up:
        return False, (
            f"no leader: {len(up)} of {count} are up, and have no quorum; start the others, and see"
            " whether they reach each other at the ports of their election"
        )
    return False, f"no leader: none of {count} says that it serves"

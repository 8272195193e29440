"""Promise 4 of the data-plane API: no serving without authority, as far as the state shows.

The check takes the place of the daemon, so it can grant, withhold and delay authority, and compares
the authority in the state of the broker process with the grant. Only an observer of its messages
can verify that it really stops serving.
"""

import asyncio
from itertools import pairwise
from typing import Final

from broker_ctl.dataplane.conformance.authority_stub import SESSION_EPOCH, AuthorityStub
from broker_ctl.dataplane.conformance.subject import BrokerClient, unmet

_PULL_S: Final = 1.0
# Tolerances: of a pause on a busy machine, and of two clock readings.
_LATE_S: Final = 1.0
_CLOCK_S: Final = 0.02
_LONG_MS: Final = 10_000
_SHORT_MS: Final = 1_500
_DELAY_S: Final = 0.4
_POLL_S: Final = 0.02


async def pulls(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """Authority is asked for at least once a second, with the secret."""
    daemon.remaining_ms = _LONG_MS
    strangers = daemon.strangers

    async def has_asked_thrice() -> bool:
        return len(daemon.pulls) >= 3 or daemon.strangers > strangers

    daemon.pulls.clear()
    expected = f"three requests with the secret to {daemon.url} (check its configuration)"
    await subject.eventually(expected, 3 * _PULL_S + _LATE_S, has_asked_thrice)
    if daemon.strangers > strangers:
        unmet(expected, "a request without it, or with a wrong one")
    longest_s = max(after.asked_s - before.asked_s for before, after in pairwise(daemon.pulls))
    if longest_s > _PULL_S + _LATE_S:
        unmet(f"at most {_PULL_S:g} s between two requests", f"{longest_s:.2f} s")


async def counts_from_request(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """The deadline counts from before the request was sent, not from the answer."""
    daemon.delay_s = _DELAY_S
    await _next_pull(subject, daemon, _LONG_MS)

    async def has_seen_three_answers() -> bool:
        # A broker process that counts from the answer claims too much authority between two
        # answers, so read the state all the time in between. A request that is not answered yet
        # cannot count.
        looked_s = subject.now_s()
        epoch, remaining_ms = await subject.authority()
        allowed_s = max(pull.asked_s for pull in daemon.pulls) + _LONG_MS / 1000 + _CLOCK_S
        too_long_s = looked_s + remaining_ms / 1000 - allowed_s
        if remaining_ms > 0 and epoch != SESSION_EPOCH:
            unmet(f"authority of session {SESSION_EPOCH}", f"session {epoch}")
        if too_long_s > 0:
            unmet("a deadline counted from before the request", f"{too_long_s * 1000:.0f} ms more")
        return len(daemon.pulls) > 2 and remaining_ms > 0

    within_s = 3 * (_PULL_S + _DELAY_S) + _LATE_S
    await subject.eventually("authority after three answers", within_s, has_seen_three_answers)


async def shorter_answer_wins(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """An answer with less time replaces one with more."""
    await _next_pull(subject, daemon, _LONG_MS)
    await _next_pull(subject, daemon, 0)

    async def is_over() -> bool:
        return (await subject.authority())[1] == 0

    await subject.eventually("remaining_ms is 0 after 0 was answered", _LATE_S, is_over)


async def expires_by_itself(subject: BrokerClient, daemon: AuthorityStub) -> None:
    """Without answers authority lasts to its deadline, and no longer."""

    async def has_authority() -> bool:
        return (await subject.authority())[1] > 0

    await _next_pull(subject, daemon, 0)
    await _next_pull(subject, daemon, _SHORT_MS)
    await subject.eventually("authority after it was granted", _LATE_S, has_authority)
    daemon.remaining_ms = None
    looked_s = subject.now_s()
    while await has_authority():
        # Read again: an answer may have been in transit when the stub stopped answering.
        if looked_s > _last_deadline_s(daemon) + _CLOCK_S:
            unmet(f"no authority {_SHORT_MS} ms after it was asked for", "authority")
        await asyncio.sleep(_POLL_S)
        looked_s = subject.now_s()
    if (early_s := _last_deadline_s(daemon) - subject.now_s()) > _LATE_S:
        unmet(f"authority for {_SHORT_MS} ms", f"none {early_s:.2f} s before its end")


def _last_deadline_s(daemon: AuthorityStub) -> float:
    return daemon.pulls[-1].asked_s + _SHORT_MS / 1000


async def _next_pull(subject: BrokerClient, daemon: AuthorityStub, remaining_ms: int) -> None:
    """Answer with ``remaining_ms`` from now on, and wait until a client has received it."""
    daemon.remaining_ms = remaining_ms
    daemon.pulls.clear()

    async def is_answered() -> bool:
        return len(daemon.pulls) > 0

    within_s = _PULL_S + _LATE_S + daemon.delay_s
    await subject.eventually(f"a request to {daemon.url}", within_s, is_answered)

"""How long this broker may trust its session (reference: metadata-store 5.6).

The proof is a committed write. A server that lost its leader goes on answering pings, and a ping
does not reach the leader's timer; a heartbeat that was committed proves that the session lived,
and that the touch of the heartbeat before it had reached the leader. So after the acknowledgement
of heartbeat k the session lives at least until ``sent(k - 1) + T``, less a margin for the rates
of clocks. Each heartbeat carries the time at which it was sent, never that of its answer.
"""

from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.errors import SettingsError

_MARGIN_S: Final = 0.25
_MARGIN_RATIO: Final = 0.01
_MIN_PERIODS: Final = 5
_PERIODS: Final = 10


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """``timeout_s`` as negotiated, ``tick_s`` of the servers, which a client cannot read."""

    timeout_s: float
    tick_s: float

    @property
    def period_s(self) -> float:
        """Time from one heartbeat to the next: a tenth, but more than half a tick with room."""
        return max(self.timeout_s / _PERIODS, self.tick_s + _MARGIN_S)

    @property
    def margin_s(self) -> float:
        """What is taken off each deadline."""
        return self.timeout_s * _MARGIN_RATIO + _MARGIN_S

    def check(self) -> None:
        """Refuse a session timeout in which too few heartbeats fit.

        Raises:
            SettingsError: the timeout is below five periods.
        """
        needed_s = _MIN_PERIODS * self.period_s
        if self.timeout_s < needed_s:
            raise SettingsError(
                f"a session timeout of {self.timeout_s:g} s is too short for "
                f"ownershipAuthority=lease with zookeeperTickTimeMillis={self.tick_s * 1000:g}: "
                f"at least {needed_s:g} s",
            )


@dataclass(frozen=True, slots=True)
class Lease:
    """What the acknowledged heartbeats of one session prove.

    Attributes:
        sent_s: when the newest acknowledged heartbeat, or the opening of the session, was sent.
        deadline_s: until when the session is known to live.
    """

    rules: LeaseRules
    sent_s: float
    deadline_s: float = 0.0

    def acknowledged(self, sent_s: float) -> "Lease":
        """A heartbeat that was sent at ``sent_s`` is committed."""
        proven_s = self.sent_s + self.rules.timeout_s - self.rules.margin_s
        return replace(self, sent_s=sent_s, deadline_s=max(self.deadline_s, proven_s))

    def remaining_s(self, now_s: float) -> float:
        """Seconds until the deadline; negative past it."""
        return self.deadline_s - now_s

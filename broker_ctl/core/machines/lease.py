"""The lease: until when a broker has authority, and until when a busy event loop is spoken for."""

from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.errors import SettingsError

# How long this broker may trust its session (docs: zookeeper-session-rules).
#
# The proof is a committed write. A server that lost its leader still answers pings, and a ping
# does not reach the leader's session timer. A committed heartbeat proves that the session was
# alive, and that everything its server had reported to the leader before had arrived. A follower
# reports the sessions that it has heard from with its answers to the leader's pings, twice per
# tick. So a heartbeat has certainly been reported if a later heartbeat is committed that was sent
# at least half a tick and some slack after the first one's answer. The session then lives at
# least for T after the first one was sent, less a margin for clock rates. Each heartbeat carries
# the time at which it was sent, never that of its answer.
#
# Assumption: the leader pings its followers on time. A leader whose pings stall for longer than a
# period while it still commits could end a session up to a period early.


_MARGIN_S: Final = 0.25
_MARGIN_RATIO: Final = 0.01
_MIN_PERIODS: Final = 5
_PERIODS: Final = 10
# Maximum number of unreported heartbeats; more occur only while connections keep changing.
_MOST_WAITING: Final = 2


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """``timeout_s`` as negotiated, ``tick_s`` of the servers."""

    timeout_s: float
    tick_s: float

    @property
    def period_s(self) -> float:
        """Time from one heartbeat to the next: a tenth, but more than half a tick with room."""
        return max(self.timeout_s / _PERIODS, self.tick_s + _MARGIN_S)

    @property
    def report_delay_s(self) -> float:
        """Seconds after its answer in which a heartbeat has surely been reported to the leader."""
        return self.tick_s / 2 + _MARGIN_S

    @property
    def margin_s(self) -> float:
        """Seconds by which each deadline is shortened."""
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
class Heartbeat:
    """A committed heartbeat: when it was sent, and when its answer arrived."""

    sent_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Lease:
    """What the committed heartbeats of one session prove.

    Attributes:
        heard_s: the leader of the servers heard from the session at this time or later, once
            another heartbeat is committed. Initially the time at which the session was opened.
        deadline_s: time until which the session is known to live.
        waiting: committed heartbeats that may not have been reported to the leader yet.
    """

    rules: LeaseRules
    heard_s: float
    deadline_s: float = 0.0
    waiting: tuple[Heartbeat, ...] = ()

    def acknowledged(self, beat: Heartbeat) -> "Lease":
        """``beat`` is committed: whatever was reported before it was sent has arrived."""
        delay_s = self.rules.report_delay_s
        reported = [one for one in self.waiting if one.answered_s + delay_s <= beat.sent_s]
        heard_s = max([self.heard_s, *(one.sent_s for one in reported)])
        proven_s = heard_s + self.rules.timeout_s - self.rules.margin_s
        # The oldest is reported first, so it stays whatever follows.
        waiting = [one for one in self.waiting if one not in reported][: _MOST_WAITING - 1]
        return replace(
            self,
            heard_s=heard_s,
            deadline_s=max(self.deadline_s, proven_s),
            waiting=(*waiting, beat),
        )

    def renegotiated(self, rules: LeaseRules, handshake_s: float) -> "Lease":
        """A server has resumed the session with a shorter timeout.

        From the handshake, which was sent at ``handshake_s`` or later, the leader counts this
        timeout, even if a longer one was proven before.
        """
        granted_s = handshake_s + rules.timeout_s - rules.margin_s
        return replace(self, rules=rules, deadline_s=min(self.deadline_s, granted_s))

    def remaining_s(self, now_s: float) -> float:
        """Seconds until the deadline; negative past it."""
        return self.deadline_s - now_s


# How long the session of a busy event loop is kept alive (docs: busy-loop).
#
# While the loop is busy, a thread sends its pings and heartbeats. A loop that has died looks like
# a busy one, so the thread sends none after a limit, and the session expires.


@dataclass(frozen=True, slots=True)
class LoopWatchdog:
    """``limit_s``: longest time since the loop's last turn in which anything is sent for it."""

    limit_s: float

    def pings_until_s(self, turn_s: float, now_s: float) -> float:
        """The newest time, ``now_s`` at most, at which a ping was allowed.

        Args:
            turn_s: last time at which the loop has certainly run.
            now_s: the present, on the same clock.
        """
        return min(now_s, turn_s + self.limit_s)

    def allows_ping(self, turn_s: float, now_s: float) -> bool:
        """Whether a ping may be sent at ``now_s``."""
        return self.pings_until_s(turn_s, now_s) >= now_s

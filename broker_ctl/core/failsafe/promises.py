"""When a broker promises another one to acquire nothing, and how long a promise counts.

The rules are those of the model (docs: model-failsafe).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.core.failsafe.members import ListVersion, MemberList

# How long a promise binds the broker that gave it. A constant: a broker that restarts does not
# remember its promises and waits as long, so all its lives must agree about it.
PROMISE_S: Final = 8.0
# Clocks of two brokers may differ by this share: a promise is used for less than it binds.
_DRIFT_RATIO: Final = 0.01


class Refusal(StrEnum):
    """Why a broker promises nothing."""

    HAS_STORE = "ZooKeeper answers this broker"
    NO_LIST = "this broker has not read the list of members since its start"
    OTHER_LIST = "the two brokers have different versions of the list of members"
    NO_MEMBER = "the other broker is not on the list of members"
    ACQUIRING = "this broker is acquiring bundles, or does not know whether it has"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a broker knows of itself as another one asks it for a promise.

    Attributes:
        members: the list as this process has read it; None: not yet.
        has_store: its own session was proven lately. Then the outage is the other broker's alone,
            which is to stop, so that its bundles are served by those who have ZooKeeper.
        is_acquiring: an acquisition is under way, or its outcome is unknown.
    """

    members: MemberList | None
    has_store: bool
    is_acquiring: bool


def refusal(asking: str, version: ListVersion, now: Situation) -> Refusal | None:
    """Why the promise is not given; None: it is."""
    if now.members is None:
        return Refusal.NO_LIST
    if now.members.version != version:
        return Refusal.OTHER_LIST
    if asking not in now.members.added:
        return Refusal.NO_MEMBER
    if now.has_store:
        return Refusal.HAS_STORE
    return Refusal.ACQUIRING if now.is_acquiring else None


def usable_until_s(sent_s: float) -> float:
    """Until when the promises of a round count for the broker that asked at ``sent_s``.

    They bind from their arrival on, which is later; the rates of the clocks may differ.
    """
    return sent_s + PROMISE_S * (1 - _DRIFT_RATIO)

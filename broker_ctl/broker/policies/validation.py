"""Validation of policies: names, patterns, and how many of each.

Every pattern is checked by `core/model/safe_regex.py`, which refuses those with too many steps.
"""

import re
from collections.abc import Sequence
from typing import Final

from broker_ctl.core.model.constraints import IsolationPolicy, host_of
from broker_ctl.core.model.safe_regex import compiled
from broker_ctl.errors import InvalidName, InvalidPolicy

MAX_POLICIES: Final = 1024
MAX_PATTERNS: Final = 256
MAX_BROKERS: Final = 4096
# Clients without any right may have patterns matched against the id of a broker that is not alive,
# so that text is short: it takes a sixtieth of the time that 256 characters take.
MAX_OFFLINE_HOST: Final = 64
_NAME: Final = re.compile(r"[-=:.\w]{1,128}", re.ASCII)
_GROUP: Final = re.compile(r"[-=:.\w]{1,128}")
# A host with a port; the host may be an IPv6 address in brackets.
_BROKER: Final = re.compile(
    r"[-.\w]{1,253}:[0-9]{1,5}|\[[0-9a-fA-F:.%\w]{2,64}\]:[0-9]{1,5}", re.ASCII
)


def require_name(kind: str, name: str) -> None:
    """Refuse a name that cannot be part of a path or a label.

    Raises:
        InvalidName: the name is not valid.
    """
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        allowed = "1 to 128 letters, digits and -=:._"
        raise InvalidName(f"{kind} {name[:128]!r}: a name has {allowed}")


def require_group(name: str) -> None:
    """Refuse an invalid name of an anti-affinity group; letters of any script are allowed.

    Raises:
        InvalidName: the name is not valid.
    """
    if not _GROUP.fullmatch(name) or name in {".", ".."}:
        allowed = "1 to 128 letters and digits of any script, and -=:._"
        raise InvalidName(f"anti-affinity group {name[:128]!r}: a name has {allowed}")


def require_patterns(policy: IsolationPolicy) -> None:
    """Refuse patterns that cannot be used.

    Raises:
        InvalidPolicy: names the pattern and the reason.
    """
    for field in ("namespaces", "primary", "secondary"):
        patterns: Sequence[str] = getattr(policy, field)
        if len(patterns) > MAX_PATTERNS:
            raise InvalidPolicy(f"{field}: {len(patterns)} patterns, {MAX_PATTERNS} are allowed")
        for pattern in patterns:
            try:
                compiled(pattern)
            except InvalidName as error:
                raise InvalidPolicy(f"{field}: {error}") from error


def require_policy(policy: IsolationPolicy) -> None:
    """Refuse an invalid isolation policy.

    Raises:
        InvalidName: its name is not valid. InvalidPolicy: its contents are not valid.
    """
    require_name("policy", policy.name)
    for field in ("namespaces", "primary"):
        patterns: Sequence[str] = getattr(policy, field)
        if not patterns or not all(patterns):
            raise InvalidPolicy(f"{field}: at least one pattern is needed, and none may be empty")
    require_patterns(policy)


def require_brokers(brokers: Sequence[str]) -> None:
    """Refuse an invalid list of brokers of a failure domain.

    Raises:
        InvalidPolicy: names the broker id and the reason.
    """
    if not 0 < len(brokers) <= MAX_BROKERS:
        raise InvalidPolicy(f"brokers: a failure domain has 1 to {MAX_BROKERS}")
    for broker_id in brokers:
        if not _BROKER.fullmatch(broker_id):
            raise InvalidPolicy(f"brokers: {broker_id[:128]!r} is not a broker id (host:port)")


def require_short_broker(broker_id: str) -> None:
    """Refuse the id of a broker that is not alive, unless it is one, with a short host.

    Raises:
        InvalidName: it is not, or its host is too long.
    """
    if not _BROKER.fullmatch(broker_id) or len(host_of(broker_id)) > MAX_OFFLINE_HOST:
        raise InvalidName(
            f"broker {broker_id[:128]!r} is not alive; others are named by host:port, with a host "
            f"of at most {MAX_OFFLINE_HOST} characters"
        )

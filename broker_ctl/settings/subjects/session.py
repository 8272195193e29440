"""Session with ZooKeeper: authority, expiry and stop."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import A_PERIOD_OR_MORE, OWN_BROKER, where
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds


class OwnershipAuthority(StrEnum):
    """What ends the right to serve a bundle (docs: ownership-authority)."""

    LEASE = "lease"
    STORAGE = "storage"
    PULSAR56 = "pulsar56"


class SessionExpiredPolicy(StrEnum):
    """Reaction to an expired session."""

    RECONNECT = "reconnect"
    SHUTDOWN = "shutdown"


class StopMode(StrEnum):
    """What a stopping daemon does with its bundles."""

    HANDOVER = "handover"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Session: authority, expiry and stop."""

    ownership_authority: Annotated[
        OwnershipAuthority,
        Setting(
            "ownershipAuthority",
            "What ends the right to serve a bundle after a disconnect. lease: the end of the "
            "lease; storage: rejection of stale fencing tokens by the storage; pulsar56: 5/6 "
            "of the session timeout.",
        ),
    ] = OwnershipAuthority.LEASE
    expired_policy: Annotated[
        SessionExpiredPolicy,
        Setting(
            "zookeeperSessionExpiredPolicy",
            "Reaction to an expired session. reconnect: re-acquire all bundles under a new "
            "session; shutdown: end the process.",
        ),
    ] = SessionExpiredPolicy.RECONNECT
    reconnect_max_retries: Annotated[
        int,
        Setting(
            "zookeeperSessionReconnectMaxRetries",
            "Maximum number of attempts at a new session before the process ends; -1: no limit.",
            at_least=-1,
        ),
    ] = -1
    loop_watchdog_s: Annotated[
        int,
        Setting(
            "loopWatchdogSeconds",
            "Maximum time without a turn of the event loop in which a thread keeps the session "
            "alive; after it, the session of a loop that has died expires. 0: no thread.",
            at_least=0,
        ),
    ] = 30
    reclaim_grace_ms: Annotated[
        int,
        Setting(
            "brokerReclaimGraceMillis",
            "Time after a session expiry in which only the previous owner may re-acquire a "
            "bundle. Minimum in effect: one heartbeat period, a tenth of the session timeout.",
            used_with=(OWN_BROKER, A_PERIOD_OR_MORE),
        ),
    ] = 2000
    reclaim_load_immediately: Annotated[
        bool,
        Setting(
            "brokerReclaimLoadImmediately",
            "Whether the topics of a re-acquired bundle that the data plane has lost are "
            "opened immediately; if false, each opens with its first client.",
            used_with=(OWN_BROKER,),
        ),
    ] = True
    stop_mode: Annotated[
        StopMode,
        Setting(
            "stopMode",
            "What a stopping daemon does with its bundles. handover: transfer them to other "
            "brokers; keep: leave the session open for a restart.",
            used_with=(OWN_BROKER,),
        ),
    ] = StopMode.HANDOVER
    session_directory: Annotated[
        Path | None,
        Setting(
            "sessionDirectory",
            "Directory in which stopMode=keep saves the session.",
            used_with=(OWN_BROKER, where("stopMode", "keep")),
        ),
    ] = None
    shutdown_timeout_ms: Annotated[
        int,
        Setting(
            "brokerShutdownTimeoutMs",
            "Maximum duration of a shutdown; afterwards the process exits without closing its "
            "session.",
            at_least=1,
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = 60_000
    bundle_unloading_timeout_ms: Annotated[
        int,
        Setting(
            "namespaceBundleUnloadingTimeoutMs",
            "Maximum time that the data plane may take to close a bundle.",
            at_least=1,
            is_dynamic=True,
        ),
    ] = 60_000

    reclaim_grace_s = InSeconds("reclaim_grace_ms")
    shutdown_timeout_s = InSeconds("shutdown_timeout_ms")
    bundle_unloading_timeout_s = InSeconds("bundle_unloading_timeout_ms")

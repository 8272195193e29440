"""Compares the settings with those of the daemons that are registered."""

from collections.abc import Mapping
from typing import Final

from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.settings.fingerprints import differing, fingerprints
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.broker_ctl import LostRecord, Registration

_CHECK: Final = "settings"
_BROKERS: Final = "brokers"
_NAMED: Final = 3


async def examine_others(settings: Settings, store: MetadataStore) -> list[Finding]:
    """A warning for each key of which a live broker has another value; values are not known.

    Raises:
        StoreError: the nodes cannot be read.
    """
    names = await store.children(paths.REGISTRATIONS)
    nodes = await store.get_many([paths.registration(name) for name in names])
    reported = {
        name: values
        for name, node in zip(names, nodes, strict=True)
        if node is not None and (values := _reported(node)) is not None
    }
    if not reported:
        return [Finding(_CHECK, "other brokers", Level.SKIPPED, "no live broker reports its own")]
    own = fingerprints(settings)
    found = [
        Finding(
            _CHECK,
            key,
            Level.WARNING,
            f"{_listed(key, own, reported)} another value than here",
            "give all daemons one value; restart them by broker-ctl rollout run",
        )
        for key in sorted(differing(own, reported.values()))
    ]
    text = f"those in common are the same at {len(reported)} live brokers"
    return found or [Finding(_CHECK, "other brokers", Level.OK, text)]


async def examine_lost(store: MetadataStore, now_ms: int) -> list[Finding]:
    """A warning for each broker that the leader misses.

    Raises:
        StoreError: the node cannot be read.
    """
    node = await store.get(paths.LOST)
    if node is None:
        return []
    try:
        since_ms = LostRecord.decode(node.path, node.data).since_ms
    except (CorruptRecord, NewerVersion) as error:
        advice = "a newer release wrote it, or another program did"
        return [Finding(_BROKERS, paths.LOST, Level.WARNING, str(error), advice)]
    advice = "start it again, or drain it: broker-ctl drain; it is forgotten after a day"
    found = [
        (broker, f"lost {max(0, now_ms - at_ms) / 60_000:.0f} min ago without a stop or a drain")
        for broker, at_ms in since_ms.items()
    ]
    return [Finding(_BROKERS, broker, Level.WARNING, text, advice) for broker, text in found]


def _reported(node: Versioned) -> Mapping[str, str] | None:
    try:
        return Registration.decode(node.path, node.data).settings
    except (CorruptRecord, NewerVersion):
        return None


def _listed(key: str, own: Mapping[str, str], reported: Mapping[str, Mapping[str, str]]) -> str:
    names = sorted(name for name, values in reported.items() if values.get(key) != own.get(key))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'has' if len(names) == 1 else 'have'}"

"""Pulsar's deprecated keys, each with Pulsar's rule of precedence.

Docs: pulsar-configuration. A rule applies within one source, so that a new key in the environment
takes precedence over an old one in the file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.settings.schema import Entry

_DEFAULT_WEIGHT: Final = 1.0


@dataclass(frozen=True, slots=True)
class Spelling:
    """An old key, used if ``wins(old text, new text)``; the new text may be empty."""

    old: str
    new: str
    wins: Callable[[str, str], bool]


def _fills_a_gap(_old: str, new: str) -> bool:
    return not new


def _if_positive(old: str, _new: str) -> bool:
    return _number(old) is None or (_number(old) or 0) > 0


def _if_changed(old: str, new: str) -> bool:
    return _number(old) != _DEFAULT_WEIGHT and (not new or _number(new) == _DEFAULT_WEIGHT)


def _number(text: str) -> float | None:
    # Text that is not a number is accepted here, and then refused under the new key with the range.
    try:
        return float(text)
    except ValueError:
        return None


SPELLINGS: Final = (
    Spelling("zookeeperServers", "metadataStoreUrl", _fills_a_gap),
    Spelling("configurationStoreServers", "configurationMetadataStoreUrl", _fills_a_gap),
    Spelling("globalZookeeperServers", "configurationMetadataStoreUrl", _fills_a_gap),
    Spelling("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis", _if_positive),
    Spelling(
        "zooKeeperOperationTimeoutSeconds", "metadataStoreOperationTimeoutSeconds", _if_positive
    ),
    Spelling("zooKeeperCacheExpirySeconds", "metadataStoreCacheExpirySeconds", _if_positive),
    Spelling(
        "loadBalancerBandwithInResourceWeight", "loadBalancerBandwidthInResourceWeight", _if_changed
    ),
    Spelling(
        "loadBalancerBandwithOutResourceWeight",
        "loadBalancerBandwidthOutResourceWeight",
        _if_changed,
    ),
)
OLD_KEYS: Final = frozenset(spelling.old for spelling in SPELLINGS)


def translate(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries of one source by current key; an entry remembers the key that was written."""
    known = {key: entry for key, entry in entries.items() if key not in OLD_KEYS}
    for spelling in SPELLINGS:
        old, new = entries.get(spelling.old), known.get(spelling.new)
        if old and old.value and spelling.wins(old.value, new.value if new else ""):
            known[spelling.new] = old
    return known

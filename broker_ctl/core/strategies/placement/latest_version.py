"""Brokers of the latest version (broker.conf: preferLaterVersions)."""

import re
from collections.abc import Sequence
from typing import Final

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.strategies.placement.sifted import FilterResult, Rejection

_VERSION: Final = re.compile(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})"
    r"(?:-([0-9A-Za-z.-]{1,64})|\.?([A-Za-z][0-9A-Za-z.]{0,63}))?"
    r"(?:\+.{0,255})?",
    re.ASCII,
)
_NUMBERS: Final = 6

_Version = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def latest_version(
    view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
) -> FilterResult:
    """Those of the latest version; nobody where a version cannot be read.

    Then the pipeline begins again without what is only preferred, as in Pulsar.
    """
    del bundle
    if not candidates or not rules.prefers_later_versions:
        return FilterResult(tuple(candidates))
    texts = {broker_id: view.brokers[broker_id].load.version for broker_id in candidates}
    versions = {broker_id: version_of(text) for broker_id, text in texts.items()}
    read = [version for version in versions.values() if version is not None]
    if len(read) < len(versions):
        whose = next(broker_id for broker_id, version in versions.items() if version is None)
        words = f"cannot be compared: the version of {whose} is {texts[whose][:64]!r}"
        return FilterResult.by(candidates, lambda _: Rejection(Reason.VERSION, words))
    latest = max(read)

    def refusal(broker_id: str) -> Rejection | None:
        if versions[broker_id] == latest:
            return None
        return Rejection(
            Reason.VERSION, f"is of {texts[broker_id][:64]}, not of the latest version"
        )

    return FilterResult.by(candidates, refusal)


def version_of(text: str) -> _Version | None:
    """A version that can be compared: ``4.0.1`` is later than ``4.0.1-rc.2``; None: it is none."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    numbers = tuple(int(number) for number in found[1].split("."))
    before_it = found[2] or found[3] or ""
    parts = before_it.split(".") if before_it else []
    return (
        numbers + (0,) * (_NUMBERS - len(numbers)),
        not parts,
        tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts),
    )

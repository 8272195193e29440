"""Bundles that lost their owner and have none since, under the extensible load manager.

That manager hands a bundle from state to state in its channel: assigning, releasing, splitting. One
that stays in such a state is owned by no broker in between, and its clients wait. With the other
managers a bundle without an owner waits for the next lookup, which is nothing to be shown.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker_ctl.core.model.bundle import Bundle

# A hand-over takes a second or two; more than this is not usual even on a busy broker.
_USUAL_S: Final = 15.0


class _Lost(NamedTuple):
    last_owner: str
    since_s: float


class StuckBundles:
    """Compares looks at the owners."""

    def __init__(self) -> None:
        self._owned: Mapping[Bundle, str] = {}
        self._lost: dict[Bundle, _Lost] = {}

    def look(self, owned: Mapping[Bundle, str], now_s: float) -> None:
        """Take in who owns what now; a bundle that was split is there in its parts."""
        for bundle, owner in self._owned.items():
            if bundle not in owned:
                self._lost.setdefault(bundle, _Lost(owner, now_s))
        here: dict[object, list[Bundle]] = {}
        for bundle in owned:
            here.setdefault(bundle.namespace, []).append(bundle)
        self._lost = {
            bundle: lost
            for bundle, lost in self._lost.items()
            if not any(bundle.overlaps(other) for other in here.get(bundle.namespace, ()))
        }
        self._owned = owned

    def rows(self, now_s: float) -> list[dict[str, Any]]:
        """Those that have been without an owner for unusually long, the longest first."""
        late = sorted(
            (lost.since_s, str(bundle), lost.last_owner)
            for bundle, lost in self._lost.items()
            if now_s - lost.since_s > _USUAL_S
        )
        return [
            {"bundle": bundle, "last_owner": owner, "for_s": round(now_s - since_s, 1)}
            for since_s, bundle, owner in late
        ]

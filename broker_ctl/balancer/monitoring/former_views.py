"""Views that were taken before, until the planner's thread has freed their bundles.

Freed at once, in the event loop, a large view would hold it up for tens of milliseconds, whether by
the builder or by who used it for longer: a cycle that carries out its plan, or lookups.
"""

import weakref
from collections.abc import Iterator

from broker_ctl.core.cluster.view import BundleView, ClusterView


class FormerViews:
    """Keeps the bundles of each view until nobody uses it any more."""

    def __init__(self) -> None:
        self._used: list[tuple[weakref.ref[ClusterView], list[BundleView]]] = []
        self._unused: list[BundleView] = []

    def keep(self, view: ClusterView) -> None:
        """Keep the bundles of a new view."""
        self._used.append((weakref.ref(view), list(view.bundles.values())))

    def freed_while_taking(self, seen: list[BundleView]) -> Iterator[BundleView]:
        """Bundles for a new view, from the last, for the planner's thread.

        It frees each of them, and all of views that nobody uses any more, as it takes them out.
        """
        used, self._used = self._used, []
        for view, bundles in used:
            if view() is not None:
                self._used.append((view, bundles))
            else:
                # In addition: another view may be under way, which frees some at this moment.
                self._unused += bundles
        return _taken_out_of(seen, self._unused)


def _taken_out_of(seen: list[BundleView], unused: list[BundleView]) -> Iterator[BundleView]:
    while seen:
        yield seen.pop()
        if unused:
            unused.pop()
    while unused:
        unused.pop()

"""The special names LARGEST and HOT of a bundle to split (docs: pulsar-split-algorithms)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import BundleGone


def _topics(bundle_view: BundleView) -> float:
    return bundle_view.load.topics if bundle_view.current is None else bundle_view.current.topics


def _throughput(bundle_view: BundleView) -> float:
    # Of a bundle that was never measured only Pulsar's default is known.
    return bundle_view.load.long.throughput if bundle_view.load.long.samples else 0.0


_BY_NAME: Final[Mapping[str, Callable[[BundleView], float]]] = MappingProxyType(
    {"LARGEST": _topics, "HOT": _throughput}
)
SPECIAL_NAMES: Final = tuple(_BY_NAME)


def special_bundle(view: ClusterView, namespace: Namespace, name: str) -> Bundle:
    """Find ``LARGEST``, the bundle with most topics, or ``HOT``, with the highest throughput.

    Raises:
        BundleGone: no bundle of the namespace has topics or throughput.
    """
    measure = _BY_NAME[name]
    found = [
        (measure(bundle_view), bundle_view.bundle)
        for bundle_view in view.bundles.values()
        if bundle_view.bundle.namespace == namespace and view.is_in_ring(bundle_view.bundle)
    ]
    # Of equals the first on the ring.
    value, bundle = min(found, key=lambda one: (-one[0], one[1]), default=(0.0, None))
    if bundle is None or value <= 0:
        raise BundleGone(f"{name}: nothing was reported of the bundles of {namespace} yet")
    return bundle

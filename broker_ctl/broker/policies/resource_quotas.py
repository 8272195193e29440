"""Resource quotas, which operators can read and set (docs: pulsar-load-data, pulsar-admin-api).

A quota is the assumed load of a bundle without measurements; the Simple manager also places by it.
A bundle's own quota takes precedence over the default quota, which takes precedence over Pulsar's
initial one.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import DEFAULT_QUOTA, MOST_QUOTA, ResourceQuota
from broker_ctl.errors import InvalidPolicy
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.simple import decode_quota, encode_quota

log = logging.getLogger(__name__)

# By Pulsar's JSON field. Memory in MiB, all others in messages or bytes per second.
_AMOUNTS: Final = {
    "msgRateIn": "msg_rate_in",
    "msgRateOut": "msg_rate_out",
    "bandwidthIn": "bandwidth_in_bytes",
    "bandwidthOut": "bandwidth_out_bytes",
    "memory": "memory_mib",
}
_DYNAMIC: Final = "dynamic"


def parse_quota(body: Mapping[str, Any]) -> ResourceQuota:
    """Parse a quota in Pulsar's JSON; all amounts are required, ``dynamic`` defaults to true.

    Raises:
        InvalidPolicy: which field is wrong, and what is allowed.
    """
    unknown = sorted(set(body) - {*_AMOUNTS, _DYNAMIC})
    if unknown:
        allowed = ", ".join((*_AMOUNTS, _DYNAMIC))
        raise InvalidPolicy(f"{unknown[0][:64]!r} is not a field of a quota; allowed are {allowed}")
    is_dynamic = body.get(_DYNAMIC, True)
    if not isinstance(is_dynamic, bool):
        raise InvalidPolicy(f"{_DYNAMIC} is true or false")
    return ResourceQuota(
        **{field: _amount(name, body.get(name)) for name, field in _AMOUNTS.items()},
        is_dynamic=is_dynamic,
    )


def _amount(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= MOST_QUOTA:
        raise InvalidPolicy(f"{name} must be a number from 0 to {MOST_QUOTA:.0f}")
    return float(value)


def _decode(node: Versioned) -> ResourceQuota:
    return decode_quota(node.path, node.data)


class ResourceQuotas:
    """Quotas by bundle; None as the bundle means the default quota."""

    def __init__(self, store: MetadataStore, policy_store: PolicyStore) -> None:
        # Quotas are stored beside the load, not in the configuration store; its read-only flag
        # applies.
        own = replace(policy_store, store=store)
        self._nodes = PolicyNodes(own, paths.RESOURCE_QUOTAS, _decode, encode_quota)

    async def payload(self, bundle: Bundle | None = None) -> bytes:
        """The effective quota of a bundle, in Pulsar's JSON.

        Raises:
            CorruptRecord: the node does not decode.
        """
        for path in _paths_of(bundle):
            quota = await self._nodes.get(path)
            if quota is not None:
                return encode_quota(quota)
        return encode_quota(DEFAULT_QUOTA) if bundle is None else await self.payload()

    async def set(self, quota: ResourceQuota, bundle: Bundle | None = None) -> None:
        """Set the quota of a bundle, or the default quota.

        Raises:
            PoliciesReadOnly: policies are read-only.
        """
        await self._nodes.change(_paths_of(bundle)[0], lambda _: quota)
        log.info("the resource quota of %s was set", bundle or "all bundles without their own")

    async def delete(self, bundle: Bundle | None = None) -> None:
        """Delete a bundle's quota, or the default quota.

        Raises:
            PoliciesReadOnly: policies are read-only.
        """
        for path in _paths_of(bundle):
            await self._nodes.delete(path)
        log.info("the resource quota of %s was reset", bundle or "all bundles without their own")


def _paths_of(bundle: Bundle | None) -> tuple[str, ...]:
    """The path of a quota, then the one that Pulsar 2.9 uses."""
    if bundle is None:
        return (paths.DEFAULT_RESOURCE_QUOTA,)
    return paths.resource_quota(bundle), paths.old_resource_quota(bundle)

"""Which isolation policies match a broker, one pattern in each iteration of the event loop.

A match may take a tenth of a second (`safe_regex`), a policy has many patterns, and a client
chooses the id of a broker that is not alive. So one request at a time is answered, and heartbeats
and other requests have their turns between two matches.
"""

import asyncio
from typing import Any

from broker_ctl.core.model.constraints import Constraints, IsolationPolicy, host_of
from broker_ctl.core.model.safe_regex import is_match


class PolicyMatches:
    """Matches of all requests of a server."""

    def __init__(self) -> None:
        self._matching = asyncio.Lock()

    async def row_of(self, constraints: Constraints, broker_id: str) -> dict[str, Any]:
        """Pulsar's BrokerNamespaceIsolationData of a broker."""
        row: dict[str, Any] = {"brokerName": broker_id, "primary": False}
        async with self._matching:
            found = await _first_match(constraints, host_of(broker_id))
        if found is not None:
            policy, is_primary = found
            row |= {
                "policyName": policy.name,
                "primary": is_primary,
                "namespaceRegex": policy.namespaces,
            }
        return row


async def _first_match(constraints: Constraints, host: str) -> tuple[IsolationPolicy, bool] | None:
    """The first policy that has the broker, and whether as a primary."""
    for policy in constraints.isolation:
        for patterns, is_primary in ((policy.primary, True), (policy.secondary, False)):
            for pattern in patterns:
                await asyncio.sleep(0)
                if is_match(pattern, host):
                    return policy, is_primary
    return None

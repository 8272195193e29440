"""The replicated topic of a demo cluster, and the overview of its controller."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.errors import EmbeddedError, HttpError
from broker_ctl.http_client import HttpClient

TOPIC: Final = "quickstart"
_ROOT: Final = "/control/v1/partitions"
# The usual replication factor with Kafka.
_REPLICAS: Final = 3
_LIMIT_S: Final = 30.0
_POLL_S: Final = 0.2


def settings_of(number: int) -> dict[str, str]:
    """Settings of a broker that can hold replicas."""
    return {"brokerId": str(number)}


async def create_topic(http: HttpClient, daemon_url: str, partitions: int, brokers: int) -> None:
    """Create the topic once the controller knows all ``brokers``.

    Raises:
        EmbeddedError: the controller refused, or did not know all brokers in time.
    """
    body = {"partitions": partitions, "replication_factor": min(_REPLICAS, brokers)}
    why = "not asked yet"
    try:
        async with asyncio.timeout(_LIMIT_S):
            while len((await overview(http, daemon_url)).get("brokers", ())) < brokers:
                why = "the controller does not know all brokers"
                await asyncio.sleep(_POLL_S)
            why = "no answer"
            url = f"{daemon_url}{_ROOT}/topics/{TOPIC}"
            reply = await http.request("PUT", url, json=body, allow_redirects=True)
    except (TimeoutError, HttpError) as error:
        raise EmbeddedError(f"topic {TOPIC} was not created: {str(error) or why}") from error
    if reply.status != 200:
        raise EmbeddedError(f"{url}: {reply.status} {reply.body.decode(errors='replace')}")


async def overview(http: HttpClient, daemon_url: str) -> dict[str, Any]:
    """The controller's overview; empty without a controller or an answer."""
    try:
        reply = await http.request("GET", f"{daemon_url}{_ROOT}/controller", allow_redirects=True)
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


def sentence(overview: Mapping[str, Any]) -> str:
    """The controller's overview in one line."""
    leaders = ", ".join(f"{row['broker']} leads {row['leaders']}" for row in overview["brokers"])
    return (
        f"partitions {overview['partitions']}, offline {overview['offline']}, "
        f"under-replicated {overview['under_replicated']}; broker {overview['broker']} controls, "
        f"{leaders}"
    )

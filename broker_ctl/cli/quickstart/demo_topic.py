"""A replicated topic of a trial cluster: made once, and what its controller says."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.errors import EmbeddedError, HttpError
from broker_ctl.http_client import HttpClient

TOPIC: Final = "quickstart"
_ROOT: Final = "/control/v1/partitions"
# As many replicas as Kafka's operators have, where there are as many brokers.
_REPLICAS: Final = 3
_LIMIT_S: Final = 30.0
_POLL_S: Final = 0.2


def settings_of(number: int) -> dict[str, str]:
    """What makes a broker take part in replication."""
    return {"brokerId": str(number)}


async def create_topic(http: HttpClient, daemon_url: str, partitions: int, brokers: int) -> None:
    """Once there is a controller that knows all brokers, of which there are so many.

    Raises:
        EmbeddedError: it refused, or there was none in time.
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
        raise EmbeddedError(f"topic {TOPIC} was not made: {str(error) or why}") from error
    if reply.status != 200:
        raise EmbeddedError(f"{url}: {reply.status} {reply.body.decode(errors='replace')}")


async def overview(http: HttpClient, daemon_url: str) -> dict[str, Any]:
    """What the controller says; empty while nobody controls, or answers here."""
    try:
        reply = await http.request("GET", f"{daemon_url}{_ROOT}/controller", allow_redirects=True)
    except HttpError:
        return {}
    return dict(reply.json()) if reply.status == 200 else {}


def sentence(overview: Mapping[str, Any]) -> str:
    """The controller's picture in one line."""
    leaders = ", ".join(f"{row['broker']} leads {row['leaders']}" for row in overview["brokers"])
    return (
        f"partitions {overview['partitions']}, offline {overview['offline']}, "
        f"under-replicated {overview['under_replicated']}; broker {overview['broker']} controls, "
        f"{leaders}"
    )

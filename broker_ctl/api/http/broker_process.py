"""Parts of Pulsar's admin API that only the broker process serves: messages, and its policies.

A 404 would mean that a topic has no schema or no statistics, and clients would then read messages
without their schema. So the status is 501, and the reason names the broker to use.
"""

from typing import Final

from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.names import DOMAINS

_ADMIN: Final = "/admin/"
# First path segment after /admin/v2, and what the paths below it are about.
_SUBJECTS: Final = {
    **dict.fromkeys(DOMAINS, "A topic's content, with its subscriptions, belongs"),
    "broker-stats": "Statistics of memory and storage belong",
    "brokers": "This operation belongs",
    "namespaces": "A policy of messages, or a namespace's content, belongs",
    "schemas": "Schemas belong",
}


def explain_unserved(path: str) -> ApiError | None:
    """501 for a path that only the broker process serves; None for any other path."""
    if not path.startswith(_ADMIN):
        return None
    segments = path.split("/")
    # /admin/v2/SUBJECT, or /admin/SUBJECT of Pulsar 1.
    subject = next((_SUBJECTS[name] for name in segments[2:4] if name in _SUBJECTS), "This belongs")
    return ApiError(
        501,
        f"{subject} to the broker process: its daemon does not serve it; use the broker that a "
        "lookup of the topic returns",
        kind="NotServedHere",
    )

"""What of Pulsar's admin API is the broker process's: messages, and the policies that it goes by.

A 404 would say that a topic has no schema, or no statistics: clients take that for an answer, and
read messages without their schema. So it is 501, with whom to ask.
"""

from typing import Final

from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.names import DOMAINS

_ADMIN: Final = "/admin/"
# The step after /admin/v2, and what lies below.
_SUBJECTS: Final = {
    **dict.fromkeys(DOMAINS, "what is in a topic, and who reads it,"),
    "broker-stats": "statistics of its memory and its storage",
    "brokers": "what it does by itself",
    "namespaces": "a policy that it goes by, or what is in a namespace,",
    "schemas": "schemas",
}


def not_here(path: str) -> ApiError | None:
    """Why a path that is not served is not; None where nobody would serve it."""
    if not path.startswith(_ADMIN):
        return None
    steps = path.split("/")
    # /admin/v2/SUBJECT, or /admin/SUBJECT of Pulsar 1.
    subject = next((_SUBJECTS[step] for step in steps[2:4] if step in _SUBJECTS), "this")
    return ApiError(
        501,
        f"{subject} belongs to the broker process, and is not served by its daemon: ask the broker "
        "that a lookup of the topic names",
        kind="NotServedHere",
    )

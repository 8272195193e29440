"""Rows of what clients have changed, and of what they were refused."""

from typing import Annotated, NamedTuple

from broker_ctl.core.history.columns import Doc


class AuditEventRow(NamedTuple):
    """A change that was made or has failed, or a refused request, at the writer.

    The audit log, where there is one, has the same request id, and what was before and after.
    """

    event: Annotated[str, Doc("change or refusal")]
    principal: Annotated[str, Doc("role of the client, or id of the broker; empty: anonymous")]
    proof: Annotated[str, Doc("how the role was proven; claimed: the client only says so")]
    original_principal: Annotated[str, Doc("for whom a proxy acts; empty: the client itself")]
    address: Annotated[str, Doc("IP address of the client")]
    operation: Annotated[str, Doc("HTTP method, or command of the binary protocol")]
    route: Annotated[str, Doc("pattern of the path; empty: of the binary protocol")]
    target: Annotated[str, Doc("path without its query, or the topic or namespace")]
    status: Annotated[str, Doc("HTTP status, or the error of the binary protocol")]
    reason: Annotated[str, Doc("why it failed or was refused")]
    request_id: Annotated[str, Doc("id of the request")]
    requests: Annotated[int, Doc("refusals that the row stands for")]

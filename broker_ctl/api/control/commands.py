"""``/control/v1`` and ``/dataplane/v1``: commands, instructions, authority, state."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.request_params import object_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.balancer.context.decisions import entry_row
from broker_ctl.codec import decode_object
from broker_ctl.core.model.commands import parse_order
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import (
    BrokerCtlError,
    CorruptRecord,
    Fenced,
    InvalidName,
    NewerVersion,
    OwnershipError,
)

# ``GET /dataplane/v1/authority``: polled by a broker process, which stops without it (I1a).


class AuthorityRoutes:
    """Serves the remaining time of the lease."""

    def __init__(self, authority: Callable[[], tuple[int, int]]) -> None:
        self._authority = authority

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/dataplane/v1/authority", self.authority)]

    async def authority(self, _: web.Request) -> web.Response:
        """Session epoch and remaining ms, which the client counts from the time of its request."""
        session_epoch, remaining_ms = self._authority()
        return responses.json({"session_epoch": session_epoch, "remaining_ms": remaining_ms})


# ``POST /control/v1/instructions``: the controller's instructions for this broker's replicas.
#
# An instruction has its own size limit, above that of operators' requests and independent of its
# setting. The response to a stale one has the newest controller epoch that this broker knows.


_PATH: Final = "/control/v1/instructions"
_MOST_BYTES: Final = 512 * 1024
_DONE: Final = "done"


class InstructionRoutes:
    """Executes instructions of the controller."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.post(_PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.Response:
        """200: acknowledged, with the errors of single partitions; 409: stale; 503: retry.

        The acknowledgement of an instruction with digests has the spans that differ.
        """
        replicas = self._dependencies.replicas
        if replicas is None:
            reason = "no replicas here: brokerId is not set at this broker"
            raise ApiError(404, reason, kind="NotReplicated")
        results = self._dependencies.instruments.replicas.instructions
        try:
            instruction = Instruction.parse(decode_object(await _body(request)))
            result = await replicas.handle(instruction)
        except BrokerCtlError as error:
            results.add(type(error).__name__)
            if isinstance(error, CorruptRecord | NewerVersion):
                return responses.error(400, type(error).__name__, str(error))
            if isinstance(error, Fenced):
                row = {"error": "Fenced", "reason": str(error)}
                epoch = replicas.newest_controller_epoch
                return responses.json({**row, "controller_epoch": epoch}, 409)
            raise
        results.add(_DONE)
        errors = [[*partition, reason] for partition, reason in result.errors]
        answer: dict[str, Any] = {"broker_epoch": result.broker_epoch, "errors": errors}
        if instruction.spans:
            answer["differing"] = result.differing
        return responses.json(answer)


async def _body(request: web.Request) -> bytes:
    """The whole body.

    Raises:
        ApiError: 400, another content type; 408, not sent in time; 413, too large.
    """
    if request.content_type != "application/json":
        raise ApiError(400, "Content-Type must be application/json")
    return await read_bounded(request, _MOST_BYTES)


# ``/control/v1/stacks``: where the tasks and threads of this process stand.


# A page for people, and a bounded pause of the event loop.
_MOST_TASKS: Final = 1_000
_MOST_FRAMES: Final = 12


class StackRoutes:
    """Serves the stacks; lines of code only, no values of variables."""

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/control/v1/stacks", self.stacks)]

    async def stacks(self, request: web.Request) -> web.Response:
        """Where each task and each thread stands, as text, for a report of a fault."""
        del request
        return responses.text("\n".join([*_tasks(), *_threads()]) + "\n")


def _tasks() -> Iterator[str]:
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    yield f"{len(tasks)} tasks"
    for task in tasks[:_MOST_TASKS]:
        yield f"task {task.get_name()}"
        for frame in task.get_stack(limit=_MOST_FRAMES):
            yield _line(frame, frame.f_lineno)
    if len(tasks) > _MOST_TASKS:
        yield f"{len(tasks) - _MOST_TASKS} more tasks are left out"


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001  the only way to see other threads
    yield f"{len(frames)} threads"
    for ident, top in frames.items():
        yield f"thread {names.get(ident, ident)}"
        for frame, line in list(traceback.walk_stack(top))[:_MOST_FRAMES]:
            yield _line(frame, line)


def _line(frame: FrameType, line: int) -> str:
    return f"    {frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}"


# ``/control/v1``: the leader's commands, and the state of a broker for operators.


_CONTROL: Final = "/control/v1"
_ENTRIES: Final = 20


class ControlRoutes:
    """Executes commands, and serves the state of this broker."""

    def __init__(self, dependencies: Dependencies, cluster_name: str) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(f"{_CONTROL}/status", self.status),
            web.get(f"{_CONTROL}/owners", self.owners),
            web.post(f"{_CONTROL}/{{verb}}", self.handle),
        ]

    async def handle(self, request: web.Request) -> web.Response:
        """Execute a command: 200 when it is done; 400, 409 and 503 name the error."""
        try:
            order = parse_order(request.match_info["verb"], await object_in(request))
        except InvalidName as error:
            return responses.error(400, "InvalidName", str(error))
        leader = self._dependencies.cluster.leader()
        note_change(
            request, after={**order.to_row(), "leader": "" if leader is None else leader[0]}
        )
        orders = self._dependencies.instruments.api.orders
        try:
            reply = await self._services.commands.handle(order)
        except BrokerCtlError as error:
            kind = type(error).__name__
            orders.add(order.verb, kind)
            if isinstance(error, OwnershipError | Fenced) and not error.can_retry:
                return responses.error(409, kind, str(error))
            raise
        orders.add(order.verb, "done")
        return responses.json(dict(reply))

    async def status(self, _: web.Request) -> web.Response:
        """State of this broker."""
        dependencies = self._dependencies
        session_epoch, remaining_ms = dependencies.authority()
        readiness, leader = dependencies.readiness(), dependencies.cluster.leader()
        return responses.json(
            {
                "broker": dependencies.own_id,
                "cluster": self._cluster_name,
                "session": {
                    "state": dependencies.session_state(),
                    "epoch": session_epoch,
                    "lease_remaining_s": remaining_ms / 1000,
                },
                "is_leader": dependencies.admin() is not None,
                "leader": None if leader is None else {"broker": leader[0], "url": leader[1]},
                "is_stopping": self._services.ownership.is_draining,
                "is_drained": dependencies.own_id in dependencies.balancer.directives.drains,
                "is_ready": readiness.is_ready,
                "reason": readiness.reason,
                "bundles": [
                    {"bundle": str(bundle), "state": held.state, "token": held.token}
                    for bundle, held in sorted(self._services.ownership.owned().items())
                ],
                "journal": [
                    entry_row(entry) for entry in dependencies.balancer.journal.recent(_ENTRIES)
                ],
            }
        )

    async def owners(self, request: web.Request) -> web.Response:
        """Who owns each bundle of a namespace; 503 at once without authority."""
        namespace = Namespace.parse(request.query.get("namespace", ""))
        with self._dependencies.authorised.held():
            ring = await self._services.namespaces.ring(namespace)
            return responses.json([await self._owner_row(bundle) for bundle in ring.bundles])

    async def _owner_row(self, bundle: Bundle) -> dict[str, Any]:
        row: dict[str, Any] = {"bundle": str(bundle), "owner": None, "token": None, "note": ""}
        try:
            owner = await self._services.ownership.owner_of(bundle)
        except BrokerCtlError as error:
            return row | {"note": f"{type(error).__name__}: {error}"}
        return row if owner is None else row | {"owner": owner.urls.broker_id, "token": owner.token}

"""``POST /control/v1/instructions``: the controller's instructions for this broker's replicas.

An instruction has its own size limit, above that of operators' requests and independent of its
setting. The response to a stale one has the newest controller epoch that this broker knows.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.responses import ApiError
from broker_ctl.codec import decode_object
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import BrokerCtlError, CorruptRecord, Fenced, NewerVersion

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
        except BrokerCtlError as met:
            results.add(type(met).__name__)
            if isinstance(met, CorruptRecord | NewerVersion):
                return responses.error(400, type(met).__name__, str(met))
            if isinstance(met, Fenced):
                row = {"error": "Fenced", "reason": str(met)}
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

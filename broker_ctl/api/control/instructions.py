"""``POST /control/v1/instructions``: what the controller tells this broker of its replicas.

An instruction may be larger than what an operator sends, and no larger than its own bound, whatever
is set for others. Where it is stale the answer names the newest controller epoch that was seen.
"""

import asyncio
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.responses import ApiError
from broker_ctl.codec import decode_object
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import BrokerCtlError, CorruptRecord, Fenced, NewerVersion

_PATH: Final = "/control/v1/instructions"
_MOST_BYTES: Final = 512 * 1024
_BODY_LIMIT_S: Final = 10.0
_DONE: Final = "done"


class InstructionRoutes:
    """One instruction after another, from whoever controls."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.post(_PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.Response:
        """200: acknowledged, with what could not be done; 409: stale; 503: send it again."""
        replicas = self._dependencies.replicas
        if replicas is None:
            reason = "no replicas here: brokerId is not set at this broker"
            raise ApiError(404, reason, kind="NotReplicated")
        results = self._dependencies.instruments.replicas.instructions
        try:
            instruction = Instruction.parse(decode_object(await _body(request)))
            obeyed = await replicas.handle(instruction)
        except BrokerCtlError as met:
            results.add(type(met).__name__)
            if isinstance(met, CorruptRecord | NewerVersion):
                return responses.error(400, type(met).__name__, str(met))
            if isinstance(met, Fenced):
                row = {"error": "Fenced", "reason": str(met)}
                seen = replicas.newest_controller_epoch
                return responses.json({**row, "controller_epoch": seen}, 409)
            raise
        results.add(_DONE)
        errors = [[*partition, reason] for partition, reason in obeyed.errors]
        return responses.json({"broker_epoch": obeyed.broker_epoch, "errors": errors})


async def _body(request: web.Request) -> bytes:
    """All of it.

    Raises:
        ApiError: 400, it is said to be something else; 408, not sent in time; 413, too much.
    """
    if request.content_type != "application/json":
        raise ApiError(400, "Content-Type must be application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_LIMIT_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise ApiError(413, f"an instruction has at most {_MOST_BYTES} bytes")
    except TimeoutError:
        raise ApiError(408, f"the body was not sent within {_BODY_LIMIT_S:g} s") from None
    return bytes(body)

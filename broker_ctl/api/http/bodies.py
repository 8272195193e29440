"""Bodies of requests: bounded in bytes and in time, and read in this one place.

`tests/api/http/test_bodies.py` fails for a module of the API that reads a body by other means.
"""

import asyncio
from typing import Final

from aiohttp import web

from broker_ctl.api.http.limits.connections import HttpConnection
from broker_ctl.api.http.responses import ApiError

_LIMIT_S: Final = 10.0
_BODY: Final = web.RequestKey("body", bytes)


async def read_bounded(request: web.Request, most_bytes: int | None = None) -> bytes:
    """The whole body, which has 10 s; it is read once and kept.

    ``most_bytes``: None: `httpMaxRequestBodyBytes`, as for every request of a client.

    Raises:
        ApiError: 400, the connection was closed before; 408, not sent in time; 413, too large.
    """
    known: bytes | None = request.get(_BODY)
    if known is None:
        most = request.client_max_size if most_bytes is None else most_bytes
        known = request[_BODY] = await _read(request, most)
    return known


async def _read(request: web.Request, most_bytes: int) -> bytes:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    bodies = connection.bodies
    body = bytearray()
    bodies.begin(body)
    try:
        # Before a byte of it is kept: most clients say how long it will be.
        if (request.content_length or 0) > most_bytes:
            raise _too_large(most_bytes)
        async with asyncio.timeout(_LIMIT_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > most_bytes:
                    raise _too_large(most_bytes)
    except ApiError:
        bodies.refused += 1
        raise
    except TimeoutError:
        bodies.refused += 1
        raise ApiError(408, f"the body was not sent within {_LIMIT_S:g} s") from None
    except (ConnectionError, web.RequestPayloadError):
        raise ApiError(400, "the connection was closed before the body was sent") from None
    finally:
        bodies.end(body)
    return bytes(body)


def _too_large(most_bytes: int) -> ApiError:
    return ApiError(413, f"the body of this request has at most {most_bytes} bytes")

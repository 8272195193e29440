"""Whole requests without a body, in the bytes that a connection has received."""

import asyncio
from typing import Final

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpRequestParser, HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

_GET: Final = b"GET "
_END: Final = b"\r\n\r\n"
_BUFFER_BYTES: Final = 1 << 16


class HeadParser:
    """aiohttp's parser, for the connections of one server.

    It is given nothing but whole heads, so that none of them leaves anything behind for the next.
    """

    def __init__(self) -> None:
        self._parser = _new_parser()

    def parse(self, data: bytes) -> RawRequestMessage | None:
        """The request, if the bytes are one GET of HTTP/1.1 that keeps the connection; else None.

        Whatever it refuses is for the parser of the connection itself, with its answer.
        """
        if not data.startswith(_GET) or data.find(_END) != len(data) - len(_END):
            return None
        try:
            messages, is_upgraded, _ = self._parser.feed_data(data)
        except HttpProcessingError:
            messages, is_upgraded = [], False
        if len(messages) == 1 and not is_upgraded:
            message, payload = messages[0]
            is_kept = message.version == HttpVersion11 and not message.should_close
            if is_kept and payload is EMPTY_PAYLOAD and not message.upgrade:
                return message
        # It failed, or it waits for a body, another protocol, or the end of the connection.
        self._parser = _new_parser()
        return None


def _new_parser() -> HttpRequestParser:
    loop = asyncio.get_running_loop()
    return HttpRequestParser(BaseProtocol(loop), loop, _BUFFER_BYTES, auto_decompress=False)

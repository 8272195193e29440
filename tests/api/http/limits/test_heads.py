"""Heads of requests: which bytes are one, and that nothing of the others is left behind."""

import pytest

from broker_ctl.api.http.limits.connections import HeadParser

WHOLE = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"
OTHERS = {
    "nothing": b"",
    "cut in the line": WHOLE[:9],
    "cut in the end": WHOLE[:-1],
    "the rest of one": WHOLE[9:],
    "two": WHOLE + WHOLE,
    "one and a half": WHOLE + WHOLE[:9],
    "another method": WHOLE.replace(b"GET", b"PUT"),
    "an older version": WHOLE.replace(b"1.1", b"1.0"),
    "an unknown version": WHOLE.replace(b"1.1", b"7.1"),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts of different length": WHOLE.replace(b"Host: x", b"Content-Length: 1\r\nHost : x"),
    "a body to come": WHOLE.replace(b"Host", b"Content-Length: 2\r\nHost"),
    "chunks to come": WHOLE.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
    "both": WHOLE.replace(b"Host", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\nHost"),
    "the last of the connection": WHOLE.replace(b"Host", b"Connection: close\r\nHost"),
    "an upgrade": WHOLE.replace(b"Host", b"Connection: upgrade\r\nUpgrade: websocket\r\nHost"),
    "too long a line": b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 10_000),
    "folded": WHOLE.replace(b"Host: x", b"Host: x\r\nA: b\r\n c"),
    "a bare line feed": WHOLE.replace(b"Host: x\r\n", b"Host: x\n"),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
async def test_what_is_not_one_whole_head_leaves_nothing_behind(data: bytes) -> None:
    heads = HeadParser()
    assert heads.parse(WHOLE) is not None
    assert heads.parse(data) is None
    found = heads.parse(WHOLE)
    assert found is not None
    assert (found.method, found.path, found.headers.get("Host")) == ("GET", "/a?b=c", "x")


async def test_a_body_of_no_bytes_is_none() -> None:
    heads = HeadParser()
    for _ in range(3):
        assert heads.parse(WHOLE.replace(b"Host", b"Content-Length: 0\r\nHost")) is not None

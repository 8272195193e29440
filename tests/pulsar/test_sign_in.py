"""Pulsar's Java client and PulsarAdmin sign in at a daemon of ours, or are refused."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.support.pulsar.distribution import Distribution
from tests.support.security.sign_in import (
    CONSUMER,
    NAMESPACE,
    PARTITIONS,
    STRANGER,
    SUPER_USER,
    TOPIC,
    Credential,
    SignIn,
    signing_in,
)

pytestmark = [pytest.mark.pulsar, pytest.mark.asyncio(loop_scope="module")]

_PROGRAM: Final = Path(__file__).with_name("harness") / "SignIn.java"
_MOST_S: Final = 300
KINDS = ("jwt", "certificate")
FOUND = str(PARTITIONS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sign_in(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignIn]:
    async with signing_in(tmp_path_factory.mktemp("sign-in")) as found:
        yield found


def asked(found: SignIn, scheme: str, shown: Credential) -> dict[str, Any]:
    """One line for the program; a client of the admin API has a URL of HTTP."""
    row = {
        "act": "client" if scheme.startswith("pulsar") else "admin",
        "url": found.url(scheme),
        "authority": str(found.server.authority),
        "topic": TOPIC,
    }
    if shown.token:
        row["token"] = shown.token
    if shown.files is not None:
        row |= {"certificate": str(shown.files.certificate), "key": str(shown.files.key)}
    return row


async def outcomes(pulsar: Distribution, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What came of each."""
    process = await asyncio.create_subprocess_exec(
        *(str(pulsar.java), "-Xmx256m", "-cp", pulsar.class_path, str(_PROGRAM)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    try:
        async with asyncio.timeout(_MOST_S):
            answered, complaints = await process.communicate(lines.encode())
    except BaseException:
        process.kill()
        await process.wait()
        raise
    found = [json.loads(line) for line in answered.splitlines()]
    assert len(found) == len(rows), complaints.decode(errors="replace")[-4000:]
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_roles_have_their_rights(
    sign_in: SignIn, pulsar_distribution: Distribution, kind: str
) -> None:
    roles = (CONSUMER, STRANGER, SUPER_USER)
    rows = [
        asked(sign_in, scheme, sign_in.of_role[role, kind])
        for scheme in ("pulsar+ssl", "https")
        for role in roles
    ]
    found = await outcomes(pulsar_distribution, rows)
    assert dict(zip(roles, found[:3], strict=True)) == {
        CONSUMER: FOUND,
        STRANGER: "AuthorizationException",
        SUPER_USER: FOUND,
    }
    assert dict(zip(roles, found[3:], strict=True)) == {
        CONSUMER: "NotAuthorizedException",
        STRANGER: "NotAuthorizedException",
        SUPER_USER: NAMESPACE.tenant,
    }


async def test_each_kind_of_wrong_credential_is_refused(
    sign_in: SignIn, pulsar_distribution: Distribution
) -> None:
    cases = [(scheme, name) for scheme in ("pulsar+ssl", "https") for name in sign_in.wrong]
    rows = [asked(sign_in, scheme, sign_in.wrong[name]) for scheme, name in cases]
    found = dict(zip(cases, await outcomes(pulsar_distribution, rows), strict=True))
    assert set(found.values()).isdisjoint({FOUND, NAMESPACE.tenant}), found
    for (scheme, name), outcome in found.items():
        assert outcome.endswith("Exception"), (scheme, name, outcome)
        # A client that fails in the TLS handshake gets no reason.
        if "certificate" not in name:
            expected = {
                "https": {"NotAuthorizedException"},
                "pulsar+ssl": {"AuthenticationException"},
            }[scheme]
            assert outcome in expected, (scheme, name, outcome)

"""When what is in a file ends, and that the daemon shows it for what is in use."""

import datetime as dt
from pathlib import Path

import jwt
import pytest
import trustme

from broker_ctl.clock import SystemClock
from broker_ctl.security.rotation.reloadable import expires_at_s
from tests.support.daemon.listening_daemon import listening_daemon
from tests.support.daemon.whole_daemon import readings
from tests.support.security.authority import LOOPBACK, Authority
from tests.support.security.replaced_files import replace

FIRST, LATER = (dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (2090, 2091))
EXPIRY = "broker_ctl_secret_expiry_timestamp_seconds"
LIST_ENDS = "broker_ctl_revocation_list_expiry_timestamp_seconds"
LIST_ISSUED = "broker_ctl_revocation_list_issued_timestamp_seconds"


def pem(authority: trustme.CA, ends: dt.datetime) -> tuple[bytes, bytes]:
    leaf = authority.issue_cert(LOOPBACK, not_after=ends)
    return b"".join(blob.bytes() for blob in leaf.cert_chain_pems), leaf.private_key_pem.bytes()


def test_the_first_certificate_to_end_counts() -> None:
    authority = trustme.CA()
    both = pem(authority, LATER)[0] + pem(authority, FIRST)[0]
    assert expires_at_s(both) == FIRST.timestamp()


def test_the_claim_of_a_token_counts() -> None:
    assert expires_at_s(jwt.encode({"exp": 1_000}, bytes(32), "HS256").encode() + b"\n") == 1_000
    assert expires_at_s(jwt.encode({"sub": "a"}, bytes(32), "HS256").encode()) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"a.b.c", b"0123456789abcdef", b"-----BEGIN CERTIFICATE-----\nAAAA", bytes(range(256))],
)
def test_anything_else_has_no_end(content: bytes) -> None:
    assert expires_at_s(content) is None


async def test_the_end_of_a_revocation_list_has_a_metric_and_an_alert_of_its_own(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "ca")
    own = authority.issue("own", hosts=(LOOPBACK,))
    authority.revoke(ends=dt.timedelta(days=4))
    async with listening_daemon(
        *own.settings,
        f"tlsRevocationListFile={authority.lists}",
    ) as (run, _):
        instruments, labels = run.assembly.foundation.instruments, ("tlsRevocationListFile",)

        def left_s() -> tuple[float, float]:
            """Of its life: what is left now, and all of it."""
            ends_at_s = readings(instruments, LIST_ENDS)[labels]
            issued_at_s = readings(instruments, LIST_ISSUED)[labels]
            return ends_at_s - SystemClock().wall_ms() / 1000, ends_at_s - issued_at_s

        left, life = left_s()
        assert left == pytest.approx(4 * 86_400, abs=120)
        # The authority of this test dates its lists back by two days.
        assert life == pytest.approx(6 * 86_400, abs=120)
        # Lists live for days: the alerts of certificates would never be silent.
        assert labels not in readings(instruments, EXPIRY)
        assert ("tlsCertificateFilePath",) in readings(instruments, EXPIRY)
        authority.revoke(ends=dt.timedelta(days=1))
        await run.around.reloader.check()
        left, life = left_s()
        assert left == pytest.approx(86_400, abs=120)
        assert life == pytest.approx(3 * 86_400, abs=120)


async def test_the_metric_is_of_the_certificate_in_use(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(ends: dt.datetime, *, is_whole: bool = True) -> None:
        chain, secret = pem(authority, ends)
        replace(certificate, chain)
        if is_whole:
            replace(key, secret)

    install(FIRST)
    async with listening_daemon(
        f"tlsCertificateFilePath={certificate}", f"tlsKeyFilePath={key}"
    ) as (run, _):

        async def shown() -> float:
            await run.around.reloader.check()
            instruments = run.assembly.foundation.instruments
            return readings(instruments, EXPIRY)[("tlsCertificateFilePath",)]

        assert await shown() == FIRST.timestamp()
        install(LATER, is_whole=False)
        assert await shown() == FIRST.timestamp()
        install(LATER)
        assert await shown() == LATER.timestamp()

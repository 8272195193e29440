"""What a signature holds for: path, cluster, session or time, and the bytes."""

import json
from collections.abc import Callable

import pytest

from broker_ctl.lab.time import ManualClock
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.store import paths
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.signed import ZnodeSignatures, family_of

PAYLOAD = b'{"version":1,"x":"y"}'
REGISTRATION = paths.registration("h:1")
SESSION = -7


class Signed:
    """Signatures whose failures are kept."""

    def __init__(
        self, *, keys: bytes = b"k", scope: str = "c/chroot", is_required: bool = True
    ) -> None:
        self.failures: list[tuple[str, str]] = []
        self.clock = ManualClock()
        self.signatures = ZnodeSignatures(
            ClusterKeys.of([keys * 32]),
            scope,
            self.clock,
            is_required=is_required,
            on_failure=lambda *failure: self.failures.append(failure),
        )

    def read(self, path: str, data: bytes, owner: int = 0, later_s: float = 0) -> Versioned | None:
        """As written that much later than now."""
        written_ms = self.clock.wall_ms() + int(later_s * 1000)
        stat = Stat(1, 1, written_ms, written_ms, 0, 0, 0, owner, len(data), 0, 1)
        return self.signatures.open(Versioned(path, data, stat))


def data_of(node: Versioned | None) -> bytes | None:
    return None if node is None else node.data


@pytest.mark.parametrize(
    ("path", "family"),
    [
        (REGISTRATION, "registration"),
        ("/loadbalance/leader", "election"),
        ("/controller", "election"),
        ("/broker-ctl/leader", "election"),
        (paths.PAUSE, "pause"),
        (paths.ROLLOUT, "rollout"),
        (paths.drain("h:1"), "drain"),
        (paths.move("m"), "move"),
        (paths.plan("p"), "plan"),
        (paths.plan_progress("p"), "plan"),
        (paths.broker(1), "broker"),
        (paths.failed(1), "failed-replicas"),
        (paths.queued(1, 2), "instruction"),
        (paths.deletion("t"), "deletion"),
        (paths.DELETIONS, None),
        (paths.REGISTRATIONS, None),
        (paths.queue(1), None),
        ("/controller_epoch", None),
        ("/broker-ctl/lead-epoch", None),
        ("/namespace/t/n/0x00000000_0xffffffff", None),
        ("/loadbalance/leaders", None),
        (paths.CLUSTER_NAME, None),
    ],
)
def test_a_path_belongs_to_one_family_or_none(path: str, family: str | None) -> None:
    found = family_of(path)
    assert (None if found is None else found.name) == family


def test_a_signed_payload_is_json_with_one_more_field_and_is_read_as_it_was_written() -> None:
    signed = Signed()
    sealed = signed.signatures.seal(REGISTRATION, PAYLOAD, SESSION)
    assert {**json.loads(PAYLOAD), "signature": json.loads(sealed)["signature"]} == json.loads(
        sealed
    )
    assert data_of(signed.read(REGISTRATION, sealed, SESSION)) == PAYLOAD
    assert signed.failures == []


Forge = Callable[[bytes], tuple[str, bytes, int]]
FORGED: dict[str, Forge] = {
    "unsigned": lambda _: (REGISTRATION, PAYLOAD, SESSION),
    "at another path": lambda sealed: (paths.registration("h:2"), sealed, SESSION),
    "in another session": lambda sealed: (REGISTRATION, sealed, 8),
    "as a persistent node": lambda sealed: (REGISTRATION, sealed, 0),
    "changed": lambda sealed: (REGISTRATION, sealed.replace(b'"y"', b'"z"'), SESSION),
    "with a field behind": lambda sealed: (REGISTRATION, sealed[:-1] + b',"x":"z"}', SESSION),
    "with a second signature": lambda sealed: (
        REGISTRATION,
        sealed[:-1] + sealed[len(PAYLOAD) - 1 :],
        SESSION,
    ),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_payload_is_refused_where_signatures_are_required_and_counted_anyway(
    forged: str,
) -> None:
    reason = "unsigned" if forged in {"unsigned", "with a field behind"} else "wrong"
    for is_required in (True, False):
        signed = Signed(is_required=is_required)
        sealed = signed.signatures.seal(REGISTRATION, PAYLOAD, SESSION)
        path, data, owner = FORGED[forged](sealed)
        found = signed.read(path, data, owner)
        assert found is not None
        assert (found.data == b"") is is_required
        assert signed.failures == [("registration", reason)]


def test_a_payload_of_another_cluster_or_key_is_wrong() -> None:
    for other in (Signed(scope="d/chroot"), Signed(keys=b"j")):
        sealed = Signed().signatures.seal(paths.drain("h:1"), PAYLOAD, SESSION)
        assert data_of(other.read(paths.drain("h:1"), sealed)) == b""
        assert other.failures == [("drain", "wrong")]


@pytest.mark.parametrize("later_s", [-61, 61, 1e6])
def test_an_earlier_payload_counts_no_more_when_it_is_written_again(later_s: float) -> None:
    for is_required in (True, False):
        signed = Signed(is_required=is_required)
        sealed = signed.signatures.seal(paths.drain("h:1"), PAYLOAD, SESSION)
        found = data_of(signed.read(paths.drain("h:1"), sealed, later_s=later_s))
        assert found == (b"" if is_required else PAYLOAD)
        assert signed.failures == [("drain", "replayed")]


@pytest.mark.parametrize("later_s", [-60, 0, 60])
def test_clocks_of_brokers_and_servers_may_differ_by_a_minute(later_s: float) -> None:
    signed = Signed()
    sealed = signed.signatures.seal(paths.drain("h:1"), PAYLOAD, SESSION)
    assert data_of(signed.read(paths.drain("h:1"), sealed, later_s=later_s)) == PAYLOAD
    # The session binds an ephemeral node, which an idle server may date late.
    own = signed.signatures.seal(REGISTRATION, PAYLOAD, SESSION)
    assert data_of(signed.read(REGISTRATION, own, SESSION, later_s=1e6)) == PAYLOAD
    assert signed.failures == []


def test_the_time_of_a_signature_cannot_be_changed_or_left_out() -> None:
    signed = Signed()
    sealed = signed.signatures.seal(paths.drain("h:1"), PAYLOAD, SESSION)
    time = str(signed.clock.wall_ms()).encode()
    later = str(signed.clock.wall_ms() + 3_600_000).encode()
    assert time + b"." in sealed
    for changed in (sealed.replace(time, later), sealed.replace(time + b".", b"")):
        assert data_of(signed.read(paths.drain("h:1"), changed, later_s=3600)) == b""
    assert signed.failures == [("drain", "wrong")] * 2


def test_a_refused_pause_is_absent_since_even_one_that_does_not_decode_would_pause() -> None:
    assert Signed().read(paths.PAUSE, PAYLOAD) is None
    assert data_of(Signed(is_required=False).read(paths.PAUSE, PAYLOAD)) == PAYLOAD


def test_a_family_and_reason_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    signed = Signed()
    for number in range(50):
        signed.read(paths.drain(f"h:{number}"), PAYLOAD)
    assert len(caplog.records) == 1
    signed.clock.time_s += 60.0
    signed.read(paths.drain("h:9"), PAYLOAD)
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        paths.drain("h:0"),
        paths.drain("h:9"),
    ]
    assert len(signed.failures) == 51

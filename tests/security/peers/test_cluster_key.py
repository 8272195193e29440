"""The keys of a cluster: what they sign, and which files of keys are refused."""

import base64

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.security.cluster_key import ClusterKeys

ONE, OTHER = bytes(range(32)), bytes(range(32, 80))
USE = "peer-request"


def lines(*keys: bytes) -> str:
    return "# keys of the cluster\n\n" + "\n".join(base64.b64encode(key).decode() for key in keys)


def test_the_first_key_signs_and_all_verify() -> None:
    old, both, swapped, new = (
        ClusterKeys.parse(lines(*keys)) for keys in ((ONE,), (ONE, OTHER), (OTHER, ONE), (OTHER,))
    )
    by_old, by_new = old.sign(USE, b"order"), new.sign(USE, b"order")
    assert both.sign(USE, b"order") == by_old
    assert swapped.sign(USE, b"order") == by_new
    for keys in (both, swapped):
        assert keys.verify(USE, b"order", by_old)
        assert keys.verify(USE, b"order", by_new)
    assert not new.verify(USE, b"order", by_old)


def test_a_signature_counts_for_its_message_and_its_use_only() -> None:
    keys = ClusterKeys.of([ONE])
    signature = keys.sign(USE, b"order")
    assert keys.verify(USE, b"order", signature)
    assert not keys.verify(USE, b"other", signature)
    assert not keys.verify("lookup", b"order", signature)
    for wrong in (b"", signature[:4], signature[:-1], signature + b"\0", signature[:4] + bytes(32)):
        assert not keys.verify(USE, b"order", wrong)


def test_keys_of_tokens_are_the_same_at_every_broker_of_one_cluster() -> None:
    tokens = [b"S3cretAdminToken0123456789", b"S3cretOtherToken0123456789"]
    signature = ClusterKeys.derived("c1", tokens).sign(USE, b"order")
    assert ClusterKeys.derived("c1", reversed(tokens)).verify(USE, b"order", signature)
    assert not ClusterKeys.derived("c2", tokens).verify(USE, b"order", signature)
    assert not ClusterKeys.derived("c1", tokens[1:]).verify(USE, b"order", signature)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no key"),
        ("# none\n", "holds no key"),
        (lines(ONE[:31]), "line 3: a key of 32 to 1024 random bytes"),
        (lines(ONE, bytes(32)), "line 4: a key of 32"),
        (lines(ONE, bytes(range(15)) * 3), "line 4: a key of 32"),
        ("correct horse battery staple, and so on for long", "line 1: a key of 32"),
        (lines(ONE, OTHER, ONE), "line 5: repeats an earlier key"),
        (lines(*(bytes(range(at, at + 32)) for at in range(17))), "more than 16 keys"),
    ],
)
def test_a_file_that_holds_no_random_keys_is_refused_without_showing_it(
    text: str, says: str
) -> None:
    with pytest.raises(SettingsError, match=f"clusterKeyFile.*{says}") as refused:
        ClusterKeys.parse(text)
    assert not any(line in str(refused.value) for line in text.splitlines() if line)


def test_no_key_is_shown_by_the_repr() -> None:
    assert ONE.hex() not in repr(ClusterKeys.of([ONE]))
    assert repr(ONE) not in repr(ClusterKeys.of([ONE]))

"""The keys of a cluster: what they sign, and which files of keys are refused."""

import base64
from collections.abc import Iterable
from itertools import pairwise

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.security.cluster_key import DERIVED, ClusterKeys, KeyFile, derive_keys

ONE, OTHER = bytes(range(32)), bytes(range(32, 80))
USE = "peer-request"
TOKENS = [b"S3cretAdminToken0123456789", b"S3cretOtherToken0123456789"]


def lines(*keys: bytes) -> str:
    return "# keys of the cluster\n\n" + "\n".join(base64.b64encode(key).decode() for key in keys)


def parsed(text: str, tokens: Iterable[bytes] = ()) -> ClusterKeys:
    return KeyFile.parse(text).keys(lambda: derive_keys("c1", tokens))


def derived(cluster: str, tokens: Iterable[bytes]) -> ClusterKeys:
    return ClusterKeys.of(derive_keys(cluster, tokens), is_derived=True)


def test_the_first_key_signs_and_all_verify() -> None:
    old, both, swapped, new = (
        parsed(lines(*keys)) for keys in ((ONE,), (ONE, OTHER), (OTHER, ONE), (OTHER,))
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
    signature = derived("c1", TOKENS).sign(USE, b"order")
    assert derived("c1", reversed(TOKENS)).verify(USE, b"order", signature)
    assert not derived("c2", TOKENS).verify(USE, b"order", signature)
    assert not derived("c1", TOKENS[1:]).verify(USE, b"order", signature)


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
        parsed(text)
    assert not any(line in str(refused.value) for line in text.splitlines() if line)


def test_no_key_is_shown_by_the_repr() -> None:
    assert ONE.hex() not in repr(ClusterKeys.of([ONE]))
    assert repr(ONE) not in repr(ClusterKeys.of([ONE]))


def test_each_step_from_derived_keys_to_a_file_is_understood_by_the_one_before() -> None:
    steps = [
        derived("c1", TOKENS),
        parsed(f"{DERIVED}\n{lines(ONE)}", TOKENS),
        parsed(f"{lines(ONE)}\n{DERIVED}\n", TOKENS),
        parsed(lines(ONE)),
    ]
    for earlier, later in pairwise(steps):
        for sender, receiver in ((earlier, later), (later, earlier)):
            assert receiver.verify(USE, b"order", sender.sign(USE, b"order"))
    assert not steps[0].verify(USE, b"order", steps[2].sign(USE, b"order"))
    assert not steps[3].verify(USE, b"order", steps[1].sign(USE, b"order"))


def test_derived_keys_need_tokens() -> None:
    with pytest.raises(SettingsError, match="no secrets of tokens"):
        parsed(f"{lines(ONE)}\n{DERIVED}\n")


def test_a_name_of_a_derived_key_says_nothing_about_its_token() -> None:
    keys = parsed(f"{DERIVED}\n{lines(ONE)}", TOKENS)
    assert keys.names == ("derived", KeyFile.parse(lines(ONE)).ids[0])
    assert len(keys.keys) == 3


def test_the_steps_of_replacing_a_key_keep_comments_and_all_other_keys() -> None:
    file = KeyFile.parse(lines(ONE))
    old = file.ids[0]
    with pytest.raises(SettingsError, match="promote another key"):
        file.remove(old)
    added = file.add(base64.b64encode(OTHER).decode())
    new = added.ids[1]
    assert added.ids == [old, new]
    promoted = added.promote(new)
    assert promoted.ids == [new, old]
    assert promoted.promote(new) == promoted
    assert str(promoted.remove(old)) == f"{lines(OTHER)}\n"
    with pytest.raises(SettingsError, match=rf"no key has the id '{old}'; the keys are {new}"):
        promoted.remove(old).promote(old)

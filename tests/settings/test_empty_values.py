"""What an empty value means, for each key of Pulsar's that we have, beside what it means there.

Pulsar's FieldParser gives an empty text to a field by its type: an Optional, a Set and a List
become empty, a String becomes null, and a primitive or an enum keeps its default.
"""

import re
from pathlib import Path

import pytest

from broker_ctl.settings.root import DECLARATIONS

_TYPES = Path(__file__).with_name("pulsar_4_0_types.txt")
_NONE = ("Optional", "Set", "List")
_ABSENT = ("String", "properties")
# Where Pulsar does not take null for "off", and why our default is what an empty text means there.
DEFAULT_THERE = {
    "tlsProtocols": "Java's own choice, which is that of our default",
    "clusterName": "refused there, as it has no default",
    "bindAddress": "all addresses, which we serve only where an operator asks for it",
    "loadManagerClassName": "no class of that name, so a warning and the Simple load manager",
    "loadBalancerLoadSheddingStrategy": "no class of that name, so a warning and the default",
    "loadBalancerLoadPlacementStrategy": "no class of that name, so a warning and the default",
    "defaultNamespaceBundleSplitAlgorithm": "no algorithm of that name, so no split",
}


_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "differences.md"


def types() -> dict[str, str]:
    """The Java type of each key."""
    found: dict[str, str] = {}
    kind = ""
    for line in _TYPES.read_text("ascii").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif not line.startswith("#"):
            found |= dict.fromkeys(line.split(), kind)
    return found


TYPES = types()
OURS = sorted(TYPES.keys() & DECLARATIONS.keys())


def test_every_key_has_a_type() -> None:
    listed = _TYPES.with_name("pulsar_4_0_keys.txt").read_text("ascii").split()
    assert TYPES.keys() == set(listed)
    assert len(OURS) > 80
    assert DEFAULT_THERE.keys() <= set(OURS)


def test_the_page_of_differences_names_each_key_that_keeps_its_default() -> None:
    text = _PAGE.read_text("utf-8")
    paragraph = text.partition("- **Empty values.**")[2].partition("\n- ")[0]
    assert set(re.findall(r"`(\w+)`", paragraph)) == DEFAULT_THERE.keys()


@pytest.mark.parametrize("key", OURS)
def test_an_empty_value_means_what_it_means_in_pulsar(key: str) -> None:
    declaration, kind = DECLARATIONS[key], TYPES[key]
    value = declaration.parse("")
    if kind in _NONE or kind in _ABSENT:
        is_none = value in (None, (), "")
        assert is_none is (key not in DEFAULT_THERE), f"{kind}: {value!r}"
    else:
        assert value == declaration.default

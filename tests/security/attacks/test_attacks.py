"""None of the attacks succeeds, and each hole has what shows that it is closed."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.security.attacks.catalogue import ATTACKS
from tests.security.attacks.scene import scene
from tests.support.rules.families import for_each
from tests.support.rules.named_tests import exists
from tests.support.zookeeper.ensemble import SharedEnsemble

HOLES: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("holes.toml").read_text(encoding="utf-8")
)


@pytest.mark.slow
async def test_no_attack_succeeds(zookeeper: SharedEnsemble, chroot: str, tmp_path: Path) -> None:
    async with scene(tmp_path, zookeeper.connect_string + chroot) as one:
        found = {name: await attack(one) for name, attack in ATTACKS.items()}
    assert {name: each.seen for name, each in found.items() if each.succeeds} == {}


def test_each_attack_is_on_a_hole() -> None:
    used = {attack for hole in HOLES.values() for attack in hole.get("attacks", ())}
    assert used == ATTACKS.keys()


@for_each("hole", HOLES)
def test_each_hole_has_tests_that_exist(hole: str) -> None:
    fields = HOLES[hole]
    assert fields["seen"] in {"before", "both", "mutation"}
    assert fields["tests"]
    assert [named for named in fields["tests"] if not exists(named)] == []

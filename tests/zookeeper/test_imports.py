"""The client is imported without what it does not need."""

import json
import subprocess
import sys
from typing import Final

# Beyond asyncio and what aiozk imports of itself.
MOST_MODULES: Final = 60
_LOADED: Final = (
    "import asyncio, json, sys; before = set(sys.modules); import broker_ctl.zookeeper;"
    "print(json.dumps(sorted(set(sys.modules) - before)))"
)


def test_the_client_brings_few_modules_and_no_package_but_aiozk() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _LOADED], check=True, capture_output=True, text=True
    )
    loaded: list[str] = json.loads(run.stdout)
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - sys.stdlib_module_names == {"aiozk", "broker_ctl"}
    ours = [name for name in loaded if not name.startswith("aiozk")]
    assert len(ours) <= MOST_MODULES, ours

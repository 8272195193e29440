"""A start without a start finds what a start would find, and leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.lifecycle.rehearsal import rehearse
from broker_ctl.daemon.wiring.security import build_authentication
from broker_ctl.daemon.wiring.stores import save, take
from broker_ctl.security.authorization import Operation
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import Problem
from broker_ctl.settings.sources import load
from broker_ctl.store.interface import SavedSession

Secret = Callable[..., Path]
LONG = "admin:0123456789abcdef"


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    def secret(text: str = LONG, mode: int = 0o600) -> Path:
        file = tmp_path / "secret"
        file.write_text(text, encoding="ascii")
        file.chmod(mode)
        return file

    return secret


def settings(*overrides: str) -> Settings:
    return load(None, {}, ["metadataStoreUrl=h", *overrides])


def texts(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


def authenticated(file: Path, *roles: str) -> Settings:
    return settings(
        "authenticationEnabled=true",
        f"tokenSecretKeyFile={file}",
        f"superUserRoles={','.join(roles)}",
    )


def test_good_settings_have_no_problem_and_no_warning(secret: Secret) -> None:
    for good in (
        settings(),
        settings("simulatedWorkload=steady"),
        authenticated(secret(), "admin"),
    ):
        rehearsal = rehearse(good)
        assert (rehearsal.problems, rehearsal.warnings) == ((), ())


def test_a_secret_that_is_missing_is_reported_with_its_key(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert texts(rehearse(authenticated(missing, "admin")).problems) == [
        f"--set: tokenSecretKeyFile={missing}: No such file or directory"
    ]


def test_a_secret_that_is_too_short_is_a_problem_and_never_shown(secret: Secret) -> None:
    (reported,) = texts(rehearse(authenticated(secret("admin:tooshort"), "admin")).problems)
    assert "at least 16" in reported
    assert "tooshort" not in reported


def test_roles_of_which_none_is_a_super_user_are_a_problem(secret: Secret) -> None:
    (reported,) = texts(rehearse(authenticated(secret(), "admn")).problems)
    assert reported == "--set: tokenSecretKeyFile: none of its roles is one of superUserRoles"


def test_a_workload_that_there_is_not_is_a_problem() -> None:
    (reported,) = texts(rehearse(settings("simulatedWorkload=nope")).problems)
    assert reported.startswith("--set: simulatedWorkload=nope: workload 'nope': skewed")


def test_storage_that_does_not_refuse_old_tokens_is_a_problem() -> None:
    (reported,) = texts(rehearse(settings("ownershipAuthority=storage")).problems)
    assert reported.startswith(
        "--set: ownershipAuthority=storage: needs a data plane whose storage rejects"
    )


def test_of_a_broker_process_it_is_seen_at_the_start(secret: Secret) -> None:
    webhook = ("dataPlane=webhook", "dataPlaneUrl=http://h", f"dataPlaneSecretFile={secret()}")
    assert rehearse(settings(*webhook, "ownershipAuthority=storage")).problems == ()


def test_faults_of_several_parts_are_reported_together(tmp_path: Path) -> None:
    bad = settings(
        f"zookeeperAuthDigestFile={tmp_path}/none",
        f"dataPlaneSecretFile={tmp_path}/none",
        f"brokerClientTrustCertsFilePath={tmp_path}/none",
        "simulatedWorkload=nope",
    )
    keys = [problem.key for problem in rehearse(bad).problems]
    assert keys == [
        "zookeeperAuthDigestFile",
        "dataPlaneSecretFile",
        "brokerClientTrustCertsFilePath",
        "simulatedWorkload",
    ]


def test_beside_a_pulsar_cluster_its_files_are_read(tmp_path: Path) -> None:
    attached = ("dataPlane=pulsar", "pulsarAdminUrl=http://h:8080")
    assert rehearse(settings(*attached)).problems == ()
    (reported,) = texts(rehearse(settings(*attached, f"pulsarTokenFile={tmp_path}/none")).problems)
    assert reported == f"--set: pulsarTokenFile={tmp_path}/none: No such file or directory"


def test_a_secret_that_everybody_can_read_is_a_warning(
    secret: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    file = secret(mode=0o644)
    rehearsal = rehearse(authenticated(file, "admin"))
    assert rehearsal.problems == ()
    (reported,) = texts(rehearsal.warnings)
    says = "every user of this machine can read this secret; chmod o-r helps"
    assert reported == f"--set: tokenSecretKeyFile={file}: {says}"
    assert caplog.records == [], "what is reported needs no log"


def test_a_history_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", encoding="ascii")
    (reported,) = texts(rehearse(settings(f"loadHistoryDirectory={in_the_way}/history")).warnings)
    assert reported.startswith(
        f"--set: loadHistoryDirectory={in_the_way}/history: cannot be written"
    )


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    fine = settings(f"loadHistoryDirectory={tmp_path}/history/deep")
    assert rehearse(fine).warnings == ()
    assert list(tmp_path.iterdir()) == []


def test_a_kept_session_stays_for_the_daemon_that_starts_next(tmp_path: Path) -> None:
    save(tmp_path, SavedSession(7, b"password", 9))
    rehearse(settings("stopMode=keep", f"sessionDirectory={tmp_path}"))
    assert take(tmp_path) == SavedSession(7, b"password", 9)


def test_the_roles_of_the_settings_are_those_that_a_daemon_goes_by(secret: Secret) -> None:
    file = secret(f"{LONG}\nwatcher:0123456789abcdefg\nother:0123456789abcdefgh\n")
    found = settings(
        "authenticationEnabled=true",
        f"tokenSecretKeyFile={file}",
        "superUserRoles=admin",
        "viewerRoles=watcher",
    )
    authentication = build_authentication(found, SystemClock(), Reloader())
    assert authentication is not None
    roles = ("admin", "watcher", "other")
    allow = authentication.roles.allow
    assert [allow(role, Operation.MONITOR) for role in roles] == [True, True, False]
    assert [allow(role, Operation.DELETE) for role in roles] == [True, False, False]

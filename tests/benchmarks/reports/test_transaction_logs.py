from pathlib import Path

from tests.benchmarks.reports.transaction_logs import delete_old


def test_the_newest_logs_and_snapshots_of_each_server_stay(tmp_path: Path) -> None:
    # Names are numbers of transactions: the order of the texts is another.
    names = ["log.1", "log.9f", "log.100", "snapshot.0", "snapshot.9f", "snapshot.1a0"]
    for server in ("server-1", "server-2"):
        data = tmp_path / server / "data" / "version-2"
        data.mkdir(parents=True)
        for name in [*names, "currentEpoch"]:
            (data / name).touch()
    delete_old(tmp_path)
    kept = {"log.9f", "log.100", "snapshot.9f", "snapshot.1a0", "currentEpoch"}
    for data in tmp_path.rglob("version-2"):
        assert {path.name for path in data.iterdir()} == kept

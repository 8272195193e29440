"""Runs are kept where everybody reads them, and their sums are those of the rows."""

from tests.nightly.table import PAGE, LongRun, add, sums

EMPTY = """# Long runs

In all: nothing yet.

| day | commit | run | seeds | violated |
|---|---|---|---|---|

More.
"""
SCHEDULES = {"schedules": 1_200, "violations": [{"seed": 7}, {"seed": 9}]}
CHAOS = {
    "seconds": 1_799.7,
    "seed": 5,
    "faults": {"links_cut": 4, "links_slow": 3},
    "violations": [],
}


def test_runs_are_added_behind_the_others_and_summed() -> None:
    one = LongRun.of_schedules(SCHEDULES, "2030-01-31", "0123abcd", 100)
    other = LongRun.of_chaos(CHAOS, "2030-02-01", "4567abcd")
    page = add(add(EMPTY, [one]), [other, other])
    assert page.count("In all: 1,200 schedules, 1.0 hours of chaos, 2 violations.") == 1
    rows = [line for line in page.splitlines() if line.startswith("| 20")]
    assert rows == [
        "| 2030-01-31 | 0123abcd | 1,200 schedules | 100 to 1299 | 2: seeds 7, 9 |",
        *["| 2030-02-01 | 4567abcd | 1,800 s of chaos | 5, 7 faults | 0 |"] * 2,
    ]
    assert page.endswith("\n\nMore.\n")


def test_the_sums_of_the_page_are_those_of_its_rows() -> None:
    page = PAGE.read_text()
    assert sums(page) in page

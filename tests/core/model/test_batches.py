from broker_ctl.core.model.counting import batched


def test_batches_hold_everything_in_order() -> None:
    assert list(batched(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(batched([], 3)) == []

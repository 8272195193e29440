"""The forecast of placements."""

from broker_ctl.balancer.context.bundle_history import OrphanProgress


def test_the_rest_takes_as_long_as_the_rate_so_far_says() -> None:
    progress = OrphanProgress()
    assert (progress.left, progress.eta_s) == (0, 0.0)
    progress.observe(100, 10.0)
    assert progress.eta_s is None
    progress.observe(60, 20.0)
    assert progress.eta_s == 15.0
    # Another broker dies: what was placed before says nothing of it.
    progress.observe(150, 30.0)
    assert progress.eta_s is None
    progress.observe(0, 40.0)
    assert progress.eta_s == 0.0

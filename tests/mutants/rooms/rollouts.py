"""Breaks of the gates of a rollout: who may stop next, and when."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_GATES: Final = "core/rollout/rollout.py"
_MACHINE: Final = "core/rollout/machine.py"
_BROKERS: Final = "core/rollout/broker_machine.py"
_STEPS: Final = "balancer/planning/rollout/runner.py"
_SEEN: Final = "balancer/planning/rollout/observer.py"
_IN_SYNC: Final = "balancer/planning/rollout/observer.py"
_PATIENCE: Final = "balancer/planning/rollout/runner.py"

_PLANNED: Final = unit(
    "core/rollout",
    "balancer/planning/test_rollout_gates.py",
    "balancer/planning/test_rollout.py",
    "balancer/admin/test_rollout.py",
)

ROLLOUTS: Final[tuple[Mutant, ...]] = (
    plant(
        "orphans-of-a-rollout-stay",
        "constraints",
        _STEPS,
        "await self._directives.end()",
        "pass",
        _PLANNED,
    ),
    plant(
        "orphans-of-a-newer-rollout-end",
        "constraints",
        _STEPS,
        "if not self._is_restored and await self._nodes.is_missing():",
        "if not self._is_restored:",
        _PLANNED,
    ),
    plant(
        "the-process-before-passes",
        "I6",
        _GATES,
        "if readings.run == readings.run_before:",
        'if readings.run == "":',
        _PLANNED,
    ),
    plant(
        "nobody-looked-from-outside",
        "I6",
        _GATES,
        "if not readings.is_healthy:",
        "if readings.is_healthy is None:",
        _PLANNED,
    ),
    plant(
        "passes-without-a-report",
        "I6",
        _GATES,
        "if not readings.has_reported:",
        "if readings.run is None:",
        _PLANNED,
    ),
    plant(
        "any-version-passes",
        "I6",
        _GATES,
        "elif version and readings.version != version:",
        'elif version and readings.version == "none":',
        _PLANNED,
    ),
    plant(
        "passes-before-the-reports-of-its-moves",
        "constraints",
        _GATES,
        "if readings.stale:",
        "if len(readings.stale) > 99:",
        _PLANNED,
    ),
    plant(
        "passes-while-replicas-lag",
        "I9",
        _GATES,
        "if readings.lagging:",
        "if len(readings.lagging) > 99:",
        _PLANNED,
    ),
    plant(
        "passes-before-clients-return",
        "I6",
        _GATES,
        "if readings.msg_rate < readings.msg_rate_before * _TRAFFIC_RATIO:",
        "if readings.msg_rate < 0:",
        _PLANNED,
    ),
    plant(
        "reports-of-the-process-before-count",
        "I6",
        _SEEN,
        "report.czxid < peer.czxid",
        "report.czxid < 0",
        _PLANNED,
    ),
    plant(
        "restarted-with-bundles-on-the-way",
        "I6",
        _STEPS,
        "if not left and broker_id in self._term.dependencies.directives.drains:",
        "if broker_id in self._term.dependencies.directives.drains:",
        _PLANNED,
    ),
    plant(
        "restarted-before-it-is-drained",
        "I6",
        _STEPS,
        "if not left and broker_id in self._term.dependencies.directives.drains:",
        "if not left:",
        _PLANNED,
    ),
    plant(
        "the-next-batch-while-others-are-gone",
        "I6 I9",
        _STEPS,
        "            if missing := self._missing(rollout):\n"
        "                return self._wait_for(rollout, missing)\n",
        "",
        _PLANNED,
    ),
    plant(
        "paused-rollouts-begin-batches",
        "I6",
        _STEPS,
        "        if all(each.state is BrokerState.WAITING for each in batch):\n"
        "            if rollout.state is RolloutState.PAUSED:\n                return rollout\n",
        "        if all(each.state is BrokerState.WAITING for each in batch):\n",
        _PLANNED,
    ),
    plant(
        "gates-wait-for-ever",
        "I10",
        _STEPS,
        "if self._patience.waited_s(broker_id, sign) > rollout.terms.gate_timeout_s:",
        "if self._patience.waited_s(broker_id, sign) < 0:",
        _PLANNED,
    ),
    plant(
        "drained-for-a-driver-that-is-gone",
        "I10",
        _STEPS,
        "if self._patience.waited_s(progress.broker_id, sign) <= limit_s:",
        "if limit_s:",
        _PLANNED,
    ),
    plant(
        "patience-does-not-see-progress",
        "I10",
        _PATIENCE,
        "if known is None or known[0] != sign:",
        "if known is None:",
        _PLANNED,
    ),
    plant(
        "replicas-read-from-a-server-that-lags",
        "I9",
        _IN_SYNC,
        "        await self._store.sync(paths.TOPICS)\n",
        "",
        _PLANNED,
    ),
    plant(
        "partitions-without-a-state-are-in-sync",
        "I9",
        _IN_SYNC,
        "isr = frozenset() if node is None else frozenset(decode_state(node).isr)",
        "isr = wanted[partition] if node is None else frozenset(decode_state(node).isr)",
        _PLANNED,
    ),
    plant(
        "one-replica-in-sync-is-enough",
        "I9",
        _IN_SYNC,
        "if not wanted[partition] <= isr:",
        "if wanted[partition] and not wanted[partition] & isr:",
        _PLANNED,
    ),
    plant(
        "checked-brokers-receive-bundles",
        "I6",
        _BROKERS,
        "DRAINED: Final = frozenset({_S.DRAINING, _S.EMPTY, _S.RESTARTING, _S.CHECKING})",
        "DRAINED: Final = frozenset({_S.DRAINING, _S.EMPTY, _S.RESTARTING})",
        _PLANNED,
    ),
    plant(
        "paused-rollouts-let-go",
        "I6",
        _MACHINE,
        "HOLDING: Final = frozenset({_S.RUNNING, _S.PAUSED, _S.SETTLING})",
        "HOLDING: Final = frozenset({_S.RUNNING, _S.SETTLING})",
        _PLANNED,
    ),
)

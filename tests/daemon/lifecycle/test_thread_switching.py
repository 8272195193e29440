import sys

import pytest

from broker_ctl.daemon.lifecycle.interpreter import switch_often


def test_threads_take_turns_more_often_than_python_has_it() -> None:
    before = sys.getswitchinterval()
    try:
        switch_often()
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    finally:
        sys.setswitchinterval(before)

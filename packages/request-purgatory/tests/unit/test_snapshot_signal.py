"""All purgatories of a process, and the signal that prints what waits in them."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from request_purgatory import DelayedOperationPurgatory, InvalidArgumentError, snapshot
from request_purgatory.snapshot import print_all, print_on_signal, take_all
from tests.conftest import MakePurgatory
from tests.support.children import in_child
from tests.support.requests import Request

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="this system has no signals for users"
)

TIME_LIMIT = 20.0


class Output:
    """A standard error whose readers can wait for what is flushed."""

    def __init__(self) -> None:
        self.text = ""
        self._flushed = threading.Semaphore(0)

    def write(self, text: str) -> None:
        """Keep a text."""
        self.text += text

    def flush(self) -> None:
        """Count a flush."""
        self._flushed.release()

    def wait(self) -> str:
        """Wait for a flush and return the text."""
        assert self._flushed.acquire(timeout=TIME_LIMIT), "nothing was printed"
        return self.text


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[Output]:
    """Catch standard error, and restore the signal's handler."""
    before = signal.getsignal(signal.SIGUSR1)
    found = Output()
    # pytest itself exchanges `sys.stderr` between a fixture and its test.
    monkeypatch.setattr(snapshot, "sys", SimpleNamespace(stderr=found))
    yield found
    signal.signal(signal.SIGUSR1, before)


def test_every_open_purgatory_of_the_process_is_found() -> None:
    first, second = (DelayedOperationPurgatory(name, reaper=False) for name in ("b-one", "a-two"))
    closed, gone = (DelayedOperationPurgatory(name, reaper=False) for name in ("closed", "gone"))
    closed.close()
    del gone
    first.try_complete_else_watch(Request(), ["k"])
    found = [(each.name, each.pending) for each in take_all()]
    ours = [each for each in found if each[0] in ("b-one", "a-two", "closed", "gone")]
    assert ours == [("a-two", 0), ("b-one", 1)]
    first.close()
    second.close()


def test_all_are_printed_at_once(purgatory: DelayedOperationPurgatory, output: Output) -> None:
    purgatory.try_complete_else_watch(Request(), ["orders"])
    print_all()
    assert output.text.startswith(f"process {os.getpid()}: ")
    assert "purgatory 'test': 1 pending, 1 watched under 1 keys" in output.text
    assert output.text.endswith("\n")


def test_process_without_standard_error_prints_nothing(
    purgatory: DelayedOperationPurgatory, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "sys", SimpleNamespace(stderr=None))
    print_all()
    assert output.text == ""


def test_signal_prints_what_waits(purgatory: DelayedOperationPurgatory, output: Output) -> None:
    purgatory.try_complete_else_watch(Request(), ["orders"])
    print_on_signal()
    signal.raise_signal(signal.SIGUSR1)
    assert "Request under 'orders'" in output.wait()


class SignallingKey:
    """A key whose comparison is interrupted by the signal, once it is armed."""

    armed = False
    signalled = 0

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        if SignallingKey.armed:
            SignallingKey.signalled += 1
            signal.raise_signal(signal.SIGUSR1)
        return self is other


def test_signal_may_interrupt_code_that_holds_a_lock(
    make_wheel_purgatory: MakePurgatory, output: Output
) -> None:
    purgatory = make_wheel_purgatory()
    print_on_signal()
    purgatory.try_complete_else_watch(Request(), [SignallingKey()])
    SignallingKey.armed = True
    try:
        purgatory.try_complete_else_watch(Request(), [SignallingKey()])
    finally:
        SignallingKey.armed = False
    assert SignallingKey.signalled > 1, "the look-up without the lock compares once"
    for _ in range(SignallingKey.signalled):
        assert "purgatory 'test': " in output.wait()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_signal_works_in_a_forked_child(
    purgatory: DelayedOperationPurgatory, output: Output
) -> None:
    purgatory.try_complete_else_watch(Request(), ["orders"])
    print_on_signal()

    def child() -> None:
        signal.raise_signal(signal.SIGUSR1)
        found = output.wait()
        assert found.startswith(f"process {os.getpid()}: ")
        assert "purgatory 'test': 0 pending" in found

    in_child(child)


def test_signal_without_a_thread_left_ends_nothing(
    output: Output, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    print_on_signal()
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    signal.raise_signal(signal.SIGUSR1)
    assert capfd.readouterr().err == (
        "purgatory: no thread to print what waits: can't start new thread\n"
    )


def test_another_signal_may_be_chosen(output: Output) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    print_on_signal(signal.SIGUSR2)
    try:
        signal.raise_signal(signal.SIGUSR2)
        assert output.wait().startswith("process ")
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_signal_that_cannot_be_handled_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="signum must be a signal to handle"):
        print_on_signal(signal.SIGKILL)
    monkeypatch.delattr(signal, "SIGUSR1")
    with pytest.raises(InvalidArgumentError, match="signum must be a signal to handle"):
        print_on_signal()


def test_module_has_the_types_of_a_snapshot() -> None:
    assert set(snapshot.__all__) > {"PurgatorySnapshot", "WaitingGroup", "WaitingOperation"}

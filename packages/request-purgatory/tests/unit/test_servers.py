"""Purgatories that close at a signal, and with the lifespan of an application."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    PurgatoryClosedError,
    servers,
)
from request_purgatory.aio import Purgatory
from request_purgatory.servers import close_on_signal, lifespan
from tests.support.children import in_child

TIME_LIMIT = 60.0


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Return the signals that the handler gets which was there before."""
    signums: list[int] = []
    kept = {
        signum: signal.signal(signum, lambda signum, _: signums.append(signum))
        for signum in servers.STOPPING
    }
    yield signums
    for signum, handler in kept.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", servers.STOPPING)
def test_signal_closes_and_goes_on_to_the_handler_before(
    received: list[int], signum: signal.Signals
) -> None:
    with DelayedOperationPurgatory("test") as one, DelayedOperationPurgatory("test") as other:
        close_on_signal(one)
        close_on_signal(other)
        held = [purgatory.hold(["a"], until=lambda: 0) for purgatory in (one, other)]
        signal.raise_signal(signum)
        assert received == [signum]
        for future in held:
            assert isinstance(future.exception(TIME_LIMIT), PurgatoryClosedError)


def test_main_thread_that_waits_is_woken(received: list[int]) -> None:
    """As of gunicorn's sync worker, which has the system go on with what a signal interrupts."""
    signal.siginterrupt(signal.SIGTERM, False)
    main = threading.get_ident()
    woken = threading.Event()

    def stop_main() -> None:
        # CPython misses a signal of the instant in which a wait for a lock begins, until the next.
        while not woken.wait(0.01):
            signal.pthread_kill(main, signal.SIGTERM)

    with DelayedOperationPurgatory("test") as purgatory:
        close_on_signal(purgatory)
        held = purgatory.hold(["a"], until=lambda: 0, timeout=TIME_LIMIT)
        stopping = threading.Thread(target=stop_main)
        stopping.start()
        try:
            # Without a timeout: the system never goes on with a wait that has one.
            assert isinstance(held.exception(), PurgatoryClosedError)
        finally:
            woken.set()
            stopping.join()
    assert set(received) == {signal.SIGTERM}


def test_purgatory_of_a_loop_closes_on_its_loop(received: list[int]) -> None:
    async def main() -> None:
        async with Purgatory("test") as purgatory:
            close_on_signal(purgatory)
            held = purgatory.hold(["a"], until=lambda: 0)
            signal.raise_signal(signal.SIGTERM)
            assert not purgatory.is_closed
            with pytest.raises(PurgatoryClosedError):
                await asyncio.wait_for(held, TIME_LIMIT)
            signal.raise_signal(signal.SIGTERM)

    asyncio.run(main())
    assert received == [signal.SIGTERM] * 2


def test_handlers_of_a_loop_are_called_too() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, told.set)
        async with Purgatory("test") as purgatory:
            close_on_signal(purgatory)
            held = purgatory.hold(["a"], until=lambda: 0)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(told.wait(), TIME_LIMIT)
            with pytest.raises(PurgatoryClosedError):
                await held
        loop.remove_signal_handler(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_purgatory_that_is_not_open_does_nothing(received: list[int]) -> None:
    unopened = Purgatory("test")
    unopened.close_threadsafe()
    left = Purgatory("test")

    async def main() -> None:
        async with left:
            pass

    asyncio.run(main())
    gone = DelayedOperationPurgatory("test", reaper=False)
    close_on_signal(unopened, left, gone)
    del gone
    gc.collect()
    signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGTERM]


def test_loop_that_was_closed_takes_no_call() -> None:
    purgatory = Purgatory("test")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(purgatory.__aenter__())
    loop.close()
    purgatory.close_threadsafe()
    assert not purgatory.is_closed


def test_signal_without_a_handler_ends_the_process() -> None:
    def child() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ended: list[int] = []
        with DelayedOperationPurgatory("test", reaper=False) as purgatory:
            close_on_signal(purgatory, signums=[signal.SIGTERM])
            signal.raise_signal = ended.append  # type: ignore[assignment]
            signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)  # type: ignore[operator, misc]
            assert ended == [signal.SIGTERM]
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    in_child(child)


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        close_on_signal(DelayedOperationPurgatory("test", reaper=False), signums=[signal.SIGINT])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_process_without_a_further_thread_says_so(
    received: list[int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with DelayedOperationPurgatory("test", reaper=False) as purgatory:
        close_on_signal(purgatory)
        monkeypatch.setattr("_thread.start_new_thread", refuse)
        signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGTERM]
    assert "no thread to close it at a signal: can't start" in capfd.readouterr().err


@pytest.mark.parametrize("signum", [0, 5.0, signal.SIGKILL])
def test_signals_are_validated(signum: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="signums must be signals to handle"):
        close_on_signal(DelayedOperationPurgatory("test", reaper=False), signums=[signum])


def test_what_is_no_purgatory_is_refused() -> None:
    for take in (close_on_signal, lifespan):
        with pytest.raises(InvalidArgumentError, match="purgatories must be purgatories, got 5"):
            take(5)  # type: ignore[arg-type]


def test_lifespan_opens_and_closes(received: list[int]) -> None:
    threads = DelayedOperationPurgatory("threads")
    loops = Purgatory("loops")
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        async with lifespan(threads, loops)(None):
            held = loops.hold(["a"], until=lambda: 0)
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(PurgatoryClosedError):
                await asyncio.wait_for(held, TIME_LIMIT)
        assert (threads.is_closed, loops.is_closed) == (True, True)
        assert signal.getsignal(signal.SIGTERM) is before

    asyncio.run(main())
    assert received == [signal.SIGTERM]


def test_lifespan_leaves_later_handlers_and_the_systems_own() -> None:
    def child() -> None:
        async def main() -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            async with lifespan(Purgatory("test"))(None):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

        asyncio.run(main())

    in_child(child)


def test_lifespan_on_another_thread_has_no_signals(received: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    purgatory = Purgatory("test")

    async def main() -> None:
        async with lifespan(purgatory)(None):
            assert signal.getsignal(signal.SIGTERM) is before

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(TIME_LIMIT)
    assert purgatory.is_closed
    assert received == []

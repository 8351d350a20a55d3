"""Every question measures every Python side, in this process and with tiny sizes."""

from __future__ import annotations

import gc
import logging
import math
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks import peers, question, stream_data
from benchmarks.question import Case, NotApplicableError, Parameter

_TINY: Mapping[str, list[dict[str, Parameter]]] = {
    "timer_cycle": [{"pending": 10, "operations": 1}],
    "timer_add": [{"count": 100}],
    "timer_cancel_random": [{"count": 100}],
    "timer_expire": [{"count": 1_000, "span_ms": 60_000}],
    "purgatory_cycle": [
        {"keys": 3, "watchers": 1, "operations": 2_000},
        {"keys": 1, "watchers": 10, "operations": 2_000},
    ],
    "purgatory_expire": [{"count": 1_000}],
    "hold": [{"what": what, "count": 500} for what in ("turns", "loaded")],
    "pauses": [
        {"what": what, "pending": 2_000} for what in ("collection", "metrics", "expire", "purge")
    ],
    "lateness": [
        {"load": load, "count": 10, "timeout_ms": 20, "spread_ms": 20, "background": 100}
        for load in ("idle", "busy_thread", "pending")
    ],
    "memory": [
        # More than the limit for threads, and few enough for threads only.
        {"kind": "handle", "count": peers.MAX_THREADS + 1},
        {"kind": "handle", "count": 50},
        {"kind": "operation", "count": 1_000, "keys": 10},
    ],
    "contention": [{"threads": 2, "keys": 1, "shards": 1, "operations": 2_000}],
    "published": [
        {"case": "low", "rate": 0, "count": 500},
        {"case": "high", "rate": 20_000, "count": 500},
        {"case": "high", "rate": 0, "count": 500, "late_answers": 1},
    ],
    "aio_hold": [{"what": what, "count": 200} for what in ("complete", "expire", "cancel")],
    "aio_timers": [{"pending": 10, "batches": 1}],
    "aio_echo": [{"clients": 2, "requests": 40}],
    "stream": [{"requests": 3_000, "pending": 50, "per_file": 2_000}],
    # The next two questions read the same files.
    "batch": [
        {"requests": 2_000, "keys": 0, "passes": 2},
        {"requests": 2_000, "keys": 0, "watched": 3, "passes": 2},
        {"requests": 2_000, "keys": 0, "ids": 0, "passes": 2},
    ],
    "replay": [
        {"source": "files", "requests": 2_000, "pending": 1_000, "passes": 1},
        {"source": "made", "requests": 3_200, "passes": 1},
    ],
    "broker_fixture": [{"nodes": 1}],
    "broker_start": [{"nodes": 1}],
    "broker_produce": [{"nodes": 1, "connections": 2, "bytes": 100, "ms": 100}],
    "broker_parked": [{"fetches": 10, "ms": 300}],
    "broker_idle": [{"consumers": 5, "ms": 900}],
    "broker_floor": [{"kind": "parked", "count": 10}, {"kind": "idle", "count": 5, "ms": 900}],
    "broker_transactions": [
        {"nodes": 1, "producers": 2, "partitions": 2, "records": 1, "ms": 100},
    ],
    "growth": [
        {"structure": "timer", "pending": 10, "timer_operations": 1},
        {"structure": "purgatory", "pending": 10, "purgatory_operations": 2_000},
    ],
}
_ON_SPARK = ("stream", "batch", "replay")
_NOT_ON_SPARK = tuple(name for name in question.NAMES if name not in _ON_SPARK)
_IN_JAVA = (*peers.JVM, peers.KAFKA_BROKER)
#: Polars keeps files open until its process ends; test_worker.py runs it.
_IN_ITS_PROCESS = (peers.POLARS,)


def _cases(*names: str) -> list[object]:
    """Return each question's tiny cases with the Python sides that are not left out there."""
    found: list[object] = []
    for name in names:
        asked = question.load(name)
        for params in _TINY[name]:
            case = Case(params, int(params["count"]) if name == "memory" else 10)
            found += [
                pytest.param(
                    name,
                    side,
                    params,
                    id=f"{name}-{case.label}-{side}",
                    marks=[pytest.mark.slow] if _is_slow(name, side, params) else [],
                )
                for side in asked.SIDES
                if side not in (*_IN_JAVA, *_IN_ITS_PROCESS)
                and asked.skip_reason(side, case) is None
            ]
    return found


def _is_slow(name: str, side: str, params: Mapping[str, Parameter]) -> bool:
    """Return True for peers, brokers, and all but two cases of the questions on Spark."""
    is_additional = name == "stream" or params.get("source") == "made"
    is_additional |= "watched" in params or "ids" in params
    is_broker = name.startswith("broker_") and name != "broker_fixture"
    return side != peers.OURS or is_additional or is_broker


def _process_state() -> dict[str, object]:
    """Return process-wide state that a measurement might change."""
    # The core removes its gc callback in the first collection after the last purgatory.
    gc.collect()
    return {
        "threads": set(threading.enumerate()),
        "files": sorted(filter(_is_ours, (str(file.readlink()) for file in _open_files()))),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.callbacks[:]),
        "left out of collections": gc.get_freeze_count() > 0,
        "switch interval": sys.getswitchinterval(),
        "files allowed": resource.getrlimit(resource.RLIMIT_NOFILE),
        "interrupt": signal.getsignal(signal.SIGINT),
        "log levels": [logging.getLogger(name).level for name in ("", "py4j", "asyncio")],
        "temporary files": set(Path(tempfile.gettempdir()).iterdir()),
    }


def _open_files() -> Iterator[Path]:
    """Yield a link for each file that is open, where the system has such links."""
    folder = Path("/proc/self/fd")
    for file in sorted(folder.iterdir()) if folder.exists() else ():
        # The listing itself had a file, which is closed by now.
        if file.is_symlink():
            yield file


def _is_ours(file: str) -> bool:
    """Whether Spark, started by other tests, can't have opened or closed it meanwhile."""
    return SparkContext._active_spark_context is None or not file.startswith("socket:")


@pytest.fixture(scope="module", autouse=True)
def few_objects_to_collect() -> None:
    """Exclude the objects that the tests have loaded from garbage collections."""
    if peers.unavailable_reason(peers.UVLOOP) is None:
        # The first loop of libuv opens a pipe for signals and keeps it open.
        peers.open_loop(peers.UVLOOP).close()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process a folder of its own for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


def _check_metrics(name: str, metrics: Mapping[str, float]) -> None:
    """Check that a question's values are finite and have known names."""
    known = question.load(name).METRICS
    assert next(iter(known)) in metrics
    assert set(metrics) <= set(known)
    assert all(math.isfinite(value) for value in metrics.values())


@contextmanager
def _unchanged_process(*, except_for: Sequence[str] = ()) -> Iterator[None]:
    """Fail if the block changes the state of the process.

    Args:
        except_for: Names of `_process_state` that may change.
    """
    before, frozen = _process_state(), gc.get_freeze_count()
    yield
    after = _process_state()
    for name in before.keys() - set(except_for):
        assert after[name] == before[name], name
    # Some frozen objects may have been freed.
    assert gc.get_freeze_count() <= frozen


@pytest.mark.parametrize(("name", "side", "params"), _cases(*_NOT_ON_SPARK))
def test_question_measures_a_side(name: str, side: str, params: dict[str, Parameter]) -> None:
    reason = peers.unavailable_reason(side)
    if reason is not None:
        pytest.skip(reason)
    with _unchanged_process():
        _check_metrics(name, question.load(name).measure(side, **params))


@pytest.fixture(scope="module")
def stream_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the questions on Spark write new input, instead of reading that of another run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_data, "_BASE_FOLDER", tmp_path_factory.mktemp("stream-data"))
        yield


@pytest.mark.parametrize(("name", "side", "params"), _cases(*_ON_SPARK))
@pytest.mark.usefixtures("stream_folder")
def test_question_on_spark_measures_a_side(
    spark: SparkSession, name: str, side: str, params: dict[str, Parameter]
) -> None:
    settings = spark.conf.getAll
    with _unchanged_process(except_for=["threads", "files"]):
        _check_metrics(name, question.load(name).measure(side, **params))
    assert spark.conf.getAll == settings
    assert not spark.streams.active


@pytest.mark.jvm
def test_apache_kafka_is_measured_like_the_other_brokers() -> None:
    measure = question.load("broker_produce").measure
    try:
        metrics = measure(peers.KAFKA_BROKER, **_TINY["broker_produce"][0])
    except NotApplicableError as reason:
        pytest.skip(str(reason))
    _check_metrics("broker_produce", metrics)
    assert metrics["per_second"] > 0


@pytest.mark.parametrize("name", question.NAMES)
def test_every_question_has_a_tiny_case(name: str) -> None:
    assert _cases(name)

"""Opening a log that was closed in an orderly way, and damaged since.

The expected offsets and bytes are those of Kafka 4.1.1 after the same damage between an orderly
stop and a start, except where a test says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.record import MemoryRecords

from purgatory_broker import Cluster
from purgatory_broker.log import closed_segment
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError, StorageError
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import append, batch, contents
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce

#: Batches of two records each, three in a segment.
BATCHES = 6
SIZE = len(batch(b"0", b"00"))
SETTINGS = LogSettings(segment_bytes=3 * SIZE, retention_ms=None)
#: Where a bit is changed, within a batch.
DAMAGE = {
    "value": SIZE - 2,
    "checksum": 18,
    "attributes": 22,
    "last offset delta": 26,
    "negative last offset delta": 23,
    "max timestamp": 40,
    "record count": 60,
    "base offset": 7,
    "large base offset": 2,
    "leader epoch": 14,
    "magic": 16,
}
_opened: list[PartitionLog] = []


@pytest.fixture(autouse=True)
def _close_logs() -> Iterator[None]:
    """Close the logs of `open_log` after the test."""
    yield
    while _opened:
        _opened.pop().close()


def open_log(folder: Path) -> PartitionLog:
    """Open the log in a folder."""
    log = PartitionLog.open("t-0", folder, SETTINGS)
    _opened.append(log)
    return log


def write_log(folder: Path) -> bytes:
    """Write a log of two segments, close it in an orderly way, and return its bytes."""
    log = open_log(folder)
    for number in range(BATCHES):
        append(log, b"%d" % number, b"%d%d" % (number, number))
    log.close(clean=True)
    return stored(folder)


def stored(folder: Path) -> bytes:
    """Return the bytes of all segments."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def damage(folder: Path, index: int, position: int, mask: int = 0x81) -> None:
    """Change bits of one byte in the batch at an index."""
    path = sorted(folder.glob("*.log"))[index // 3]
    data = bytearray(path.read_bytes())
    data[index % 3 * SIZE + position] ^= mask
    path.write_bytes(data)


def read_all(log: PartitionLog) -> bytes:
    """Return the bytes that consumers get, from each batch to the end of its segment."""
    return b"".join(log.read(offset, 10**6, log.end_offset, at_least_one=True) for offset in (0, 6))


@pytest.mark.parametrize("position", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("index", [0, 1, 2, 4, 5])
def test_damaged_batch_stays(
    tmp_path: Path, index: int, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With all that follow it; every batch is read as it is stored.

    Kafka takes the end of the log from the last batch, even if that is damaged.
    """
    before = write_log(tmp_path)
    damage(tmp_path, index, position)
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.end_offset) == (0, 2 * BATCHES)
    assert stored(tmp_path) == read_all(log) != before
    for offset in range(2 * BATCHES):
        found = log.read(offset, 1, log.end_offset, at_least_one=True)
        assert found == stored(tmp_path)[offset // 2 * SIZE :][:SIZE], offset
    if position != DAMAGE["leader epoch"]:  # Which no checksum covers.
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert f"the batch at offset {2 * index}, {SIZE} bytes at" in record.getMessage()
    assert append(log, b"new") == 2 * BATCHES


@pytest.mark.parametrize("index", [0, 1, 2, 5])
@pytest.mark.parametrize("mask", [0x80, 0x40, 0x01])
def test_damaged_length_prevents_opening(
    tmp_path: Path, index: int, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as it is tried, and nothing is cut. Kafka does not start."""
    monkeypatch.setattr(closed_segment, "_CHUNK_BYTES", 100)
    write_log(tmp_path)
    damage(tmp_path, index, 8 if mask == 0x80 else 11, mask)
    content = stored(tmp_path)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"t-0: the segment at offset [06] is damaged"):
            open_log(tmp_path)
        assert stored(tmp_path) == content


@pytest.mark.parametrize("chunk_bytes", [1, SIZE - 1, SIZE, SIZE + 13, 10**6])
def test_closed_log_is_read_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(closed_segment, "_CHUNK_BYTES", max(chunk_bytes, 12))
    write_log(tmp_path)
    log = open_log(tmp_path)
    log.check()
    assert [offset for offset, _ in contents(log)] == list(range(2 * BATCHES))


def test_batch_at_another_offset_is_not_read_for_ever(tmp_path: Path) -> None:
    write_log(tmp_path)
    damage(tmp_path, 1, DAMAGE["base offset"], 0x02)
    log = open_log(tmp_path)
    with pytest.raises(RecordError, match="has a batch with base offset 0 at offset 2"):
        contents(log)


def test_log_that_was_opened_since_is_recovered(tmp_path: Path) -> None:
    write_log(tmp_path)
    open_log(tmp_path)
    damage(tmp_path, 1, DAMAGE["value"])
    assert open_log(tmp_path).end_offset == 2


@pytest.mark.parametrize(
    "content", ["", "0\n12", "1\n12\n{size}\n", "0\nx\n{size}\n", "0\n12\n1\n"]
)
def test_incomplete_note_is_ignored(tmp_path: Path, content: str) -> None:
    size = len(write_log(tmp_path))
    (tmp_path / "clean-shutdown").write_text(content.format(size=size))
    damage(tmp_path, 1, DAMAGE["value"])
    assert open_log(tmp_path).end_offset == 2


def test_wrong_end_offset_prevents_opening(tmp_path: Path) -> None:
    size = len(write_log(tmp_path))
    (tmp_path / "clean-shutdown").write_text(f"0\n13\n{size}\n")
    with pytest.raises(StorageError, match="it ends at 12, but ended at 13 when it was closed"):
        open_log(tmp_path)


def test_empty_log_can_be_closed_and_opened(tmp_path: Path) -> None:
    open_log(tmp_path).close(clean=True)
    log = open_log(tmp_path)
    assert append(log) == 0
    log.truncate_fully_and_start_at(7)
    log.close(clean=True)
    assert append(open_log(tmp_path)) == 7


def test_stopped_cluster_serves_the_records_after_a_damaged_one(
    tmp_path: Path, connect: Callable[[str], RawClient]
) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("t")
        client = connect(cluster.bootstrap_servers)
        for value in (b"one", b"two", b"three"):
            assert produce(client, "t", value).error_code == 0
    (path,) = tmp_path.glob("node-0/t-0/*.log")
    path.write_bytes(path.read_bytes().replace(b"two", b"tWo"))
    with Cluster(data_dir=tmp_path) as cluster:
        client = connect(cluster.bootstrap_servers)
        records = MemoryRecords(bytes(fetch(client, "t", 0).records))
        found = []
        while (each := records.next_batch()) is not None:
            found.append((each.validate_crc(), next(iter(each)).value))
        assert found == [(True, b"one"), (False, b"tWo"), (True, b"three")]
        assert produce(client, "t", b"four").base_offset == 3

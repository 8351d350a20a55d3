"""The stores of segments' bytes, and the offset checkpoint."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.checkpoint import OffsetCheckpoint
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.store import FileStore, MemoryStore, OpenFiles, Store

resource = pytest.importorskip("resource")


@contextlib.contextmanager
def full_at(size: int) -> Iterator[None]:
    """Limit every file to `size` bytes; a longer write is partial, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def files() -> Iterator[OpenFiles]:
    """Return a cache of two open files."""
    files = OpenFiles(2)
    yield files
    for path in list(files._descriptors):
        files.close(path)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path, files: OpenFiles) -> Store:
    """Return an empty store in memory or in a file."""
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path / "0.log", files)


def test_appended_bytes_are_read(store: Store) -> None:
    store.append(b"abc")
    store.append(bytearray(b"defg"))
    assert store.size == 7
    assert [store.read(0, 7), store.read(2, 3), store.read(7, 0)] == [b"abcdefg", b"cde", b""]
    store.flush()
    store.truncate(4)
    store.append(b"X")
    assert (store.size, store.read(0, 5)) == (5, b"abcdX")
    store.delete()


def test_appended_bytes_are_in_the_file_at_once(tmp_path: Path, files: OpenFiles) -> None:
    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abc")
    assert (tmp_path / "0.log").read_bytes() == b"abc"
    again = FileStore(tmp_path / "0.log", OpenFiles())
    assert again.size == 3
    again.close()
    store.delete()
    assert not (tmp_path / "0.log").exists()


def test_append_to_a_full_disk_is_undone(tmp_path: Path, files: OpenFiles) -> None:
    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abc")
    with full_at(10):
        with pytest.raises(RecordError, match="writing 100 bytes at 3") as caught:
            store.append(b"x" * 100)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (store.size, (tmp_path / "0.log").read_bytes()) == (3, b"abc")
        store.append(b"defg")
    store.append(b"y" * 100)
    assert (tmp_path / "0.log").read_bytes() == b"abcdefg" + b"y" * 100


def test_failed_truncation_is_repeated_by_the_next_append(
    tmp_path: Path, files: OpenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abc")
    cut = os.ftruncate

    def failing(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "ftruncate", failing)
    with full_at(10), pytest.raises(RecordError):
        store.append(b"x" * 100)
    with pytest.raises(RecordError):
        store.append(b"d")
    assert (store.size, (tmp_path / "0.log").read_bytes()) == (3, b"abc" + b"x" * 7)
    with pytest.raises(RecordError):
        store.truncate(1)
    assert store.size == 3
    monkeypatch.setattr(os, "ftruncate", cut)
    store.append(b"d")
    assert (tmp_path / "0.log").read_bytes() == b"abcd"


def test_partial_writes_are_continued(
    tmp_path: Path, files: OpenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.pwrite
    monkeypatch.setattr(
        os,
        "pwrite",
        lambda descriptor, data, position: write(descriptor, bytes(data)[:1], position),
    )
    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abc")
    store.append(b"def")
    assert store.read(0, 6) == b"abcdef"


def test_read_of_a_truncated_file_fails(tmp_path: Path, files: OpenFiles) -> None:
    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abcdef")
    os.truncate(tmp_path / "0.log", 4)
    with pytest.raises(RecordError, match=r"can.t read 6 at 0") as caught:
        store.read(0, 6)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_open_files_are_limited(tmp_path: Path, files: OpenFiles) -> None:
    stores = [FileStore(tmp_path / f"{number}.log", files) for number in range(5)]
    for turn in range(3):
        for number, store in enumerate(stores):
            store.append(b"%d" % number)
            assert len(files) == 2
        assert [store.read(0, turn + 1) for store in stores] == [
            b"%d" % number * (turn + 1) for number in range(5)
        ]
    stores[3].flush()
    for store in stores:
        store.delete()
    assert len(files) == 0


def test_file_that_can_not_be_opened_is_a_storage_error(tmp_path: Path, files: OpenFiles) -> None:
    with pytest.raises(RecordError, match="missing") as caught:
        FileStore(tmp_path / "missing" / "0.log", files)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_failed_fsync_is_a_storage_error(
    tmp_path: Path, files: OpenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def failing(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "no")

    store = FileStore(tmp_path / "0.log", files)
    store.append(b"abc")
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(RecordError) as caught:
        store.flush()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    store.flush()
    store.flush()
    assert len(calls) == 2


# -- the checkpoint


def test_checkpoint_holds_the_last_offset(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "offset")
    assert checkpoint.read() is None
    for offset in (7, 2**62, 3):
        checkpoint.write(offset)
        assert OffsetCheckpoint(tmp_path / "offset").read() == offset
    assert [path.name for path in tmp_path.iterdir()] == ["offset"]


def test_failed_write_keeps_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "offset")
    checkpoint.write(7)
    with full_at(3), pytest.raises(RecordError, match="writing 123456789") as caught:
        checkpoint.write(123_456_789)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert checkpoint.read() == 7


@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n12", b"1\n12\n", b"0\n-1\n", b"0\n1\n2\n", b"\xff\xfe"]
)
def test_invalid_checkpoint_is_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "offset").write_bytes(content)
    assert OffsetCheckpoint(tmp_path / "offset").read() is None
    assert str(tmp_path / "offset") in caplog.text

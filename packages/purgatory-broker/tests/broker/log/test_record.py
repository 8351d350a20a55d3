"""The records inside a batch, and the codecs."""

from __future__ import annotations

import contextlib
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header, verify_checksum
from purgatory_broker.log.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    decompress,
)
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.record import (
    Record,
    build_batch,
    decompress_records,
    first_at_or_after,
    read_records,
)
from tests.broker.log.batches import NOW, batch, with_fields

COMPRESSED = {GZIP: None, SNAPPY: "snappy", LZ4: "lz4.frame", ZSTD: "zstandard"}


def require_codec(codec: int) -> None:
    """Skip a test whose codec is not installed."""
    if codec and COMPRESSED[codec]:
        pytest.importorskip(COMPRESSED[codec])


@pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)
def test_records_of_every_codec_are_read(codec: int) -> None:
    """They are the records that kafka-python wrote."""
    require_codec(codec)
    data = batch(
        b"a" * 1_000,
        None,
        b"",
        b"b" * 100_000,
        timestamps=[NOW, NOW + 2, NOW - 5, NOW],
        headers=[("h", b"1"), ("i", None)],
        codec=codec,
    )
    header = read_header(data)
    assert header.codec == codec
    theirs = [
        (each.offset, each.key, each.value, each.timestamp) for each in DefaultRecordBatch(data)
    ]
    assert [tuple(each) for each in read_records(header, data)] == theirs


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=200),
            st.integers(-(2**40), 2**40),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=3),
        ),
        min_size=1,
        max_size=70,
    ),
    st.none() | st.binary(max_size=70),
    st.sampled_from([0, GZIP]),
)
def test_any_records_are_read_as_kafka_python_does(
    rows: list[tuple], key: bytes | None, codec: int
) -> None:
    data = batch(
        *[row[0] for row in rows],
        key=key,
        timestamps=[row[1] for row in rows],
        headers=rows[0][2],
        codec=codec,
    )
    theirs = [
        (each.offset, each.key, each.value, each.timestamp) for each in DefaultRecordBatch(data)
    ]
    assert [tuple(each) for each in read_records(read_header(data), data)] == theirs


@given(st.integers(0, 400), st.integers(1, 255), st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD]))
def test_corrupt_records_are_records_or_a_record_error(at: int, flip: int, codec: int) -> None:
    data = bytearray(batch(*[b"value" * 9] * 10, headers=[("h", b"1")], codec=codec))
    at = 61 + at % (len(data) - 61)
    data[at] ^= flip
    with contextlib.suppress(RecordError):
        list(read_records(read_header(data), bytes(data)))


@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1])
def test_wrong_record_count_is_refused(count: int) -> None:
    data = with_fields(batch(b"a", b"b"), record_count=count)
    with pytest.raises(RecordError) as caught:
        list(read_records(read_header(data), data))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("codec", "code"), [(GZIP, -1), (SNAPPY, -1), (LZ4, -1), (ZSTD, -1), (5, -1), (7, -1)]
)
def test_data_of_another_codec_is_refused(codec: int, code: int) -> None:
    """The code is that of Kafka's response."""
    if codec in COMPRESSED:
        require_codec(codec)
    data = with_fields(batch(b"a"), attributes=codec)
    with pytest.raises(RecordError) as caught:
        decompress_records(read_header(data), data)
    assert caught.value.code == code


@pytest.mark.parametrize("codec", COMPRESSED, ids=lambda codec: CODEC_NAMES[codec])
def test_batch_beyond_the_limit_is_not_decompressed(codec: int) -> None:
    require_codec(codec)
    data = batch(b"0" * 50_000, codec=codec)[61:]
    whole = decompress(codec, data)
    assert whole is not None
    assert decompress(codec, data, len(whole)) == whole
    assert decompress(codec, data, len(whole) - 1) is None


def test_snappy_without_framing_is_read() -> None:
    snappy = pytest.importorskip("snappy")
    assert decompress(SNAPPY, snappy.compress(b"value" * 100)) == b"value" * 100


def test_incomplete_gzip_is_refused() -> None:
    """It would have fewer records."""
    with pytest.raises(RecordError, match="gzip"):
        decompress(GZIP, gzip.compress(b"value" * 1_000)[:-9])


def test_batch_of_a_missing_codec_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zstandard")

    def missing(name: str) -> None:
        raise ImportError(name)

    data = batch(*[b"x" * 100] * 3, timestamps=[NOW, NOW + 10, NOW + 20], codec=ZSTD)
    header = read_header(data)
    assert first_at_or_after(header, data, NOW + 5) == (NOW + 10, 1)
    monkeypatch.setattr("purgatory_broker.log.compression.import_module", missing)
    assert decompress_records(header, data) is None
    assert first_at_or_after(header, data, NOW + 5) == (NOW, 0)
    assert first_at_or_after(header, data, NOW + 21) is None
    with pytest.raises(RecordError) as caught:
        list(read_records(header, data))
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_first_record_at_or_after_a_time() -> None:
    data = batch(b"a", b"b", b"c", timestamps=[NOW, NOW + 20, NOW + 10])
    header = read_header(data)
    assert first_at_or_after(header, data, 0) == (NOW, 0)
    assert first_at_or_after(header, data, NOW + 1) == (NOW + 20, 1)
    assert first_at_or_after(header, data, NOW + 1, offset=2) == (NOW + 10, 2)
    assert first_at_or_after(header, data, NOW + 21) is None


def test_log_append_time_is_that_of_all_records() -> None:
    data = with_fields(batch(b"a", b"b", timestamps=[5, 6]), attributes=8, max_timestamp=NOW)
    assert {each.timestamp for each in read_records(read_header(data), data)} == {NOW}


def test_built_batch_is_valid() -> None:
    data = build_batch([(b"k", b"v"), (b"k", None)], NOW)
    header = read_header(data)
    verify_checksum(header, data)
    assert list(read_records(header, data)) == [
        Record(0, b"k", b"v", NOW),
        Record(1, b"k", None, NOW),
    ]


@given(st.lists(st.tuples(*[st.none() | st.binary(max_size=200)] * 2), min_size=1, max_size=200))
def test_batches_are_built_as_by_kafka_python(
    records: list[tuple[bytes | None, bytes | None]],
) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**31 - 1)
    for index, (key, value) in enumerate(records):
        builder.append(index, NOW, key, value, [])
    assert build_batch(records, NOW) == bytes(builder.build())

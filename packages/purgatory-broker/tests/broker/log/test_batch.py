"""Record batches as bytes."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import (
    read_header,
    split_batches,
    verify_checksum,
    with_max_timestamp,
    with_offset_and_epoch,
)
from purgatory_broker.log.log_errors import RecordError
from tests.broker.log.batches import NOW, batch, values, with_fields


def test_header_has_the_fields_that_kafka_python_reads() -> None:
    """Every field has the value that kafka-python reads."""
    data = batch(
        b"a", b"b", b"c", timestamps=[NOW, NOW + 7, NOW + 3], producer=(5, 2, 2**31 - 2), codec=0
    )
    header, theirs = read_header(data), DefaultRecordBatch(data)
    assert header.size == theirs.size_in_bytes == len(data)
    assert (header.base_offset, header.last_offset, header.next_offset) == (
        0,
        theirs.last_offset,
        theirs.next_offset,
    )
    assert (header.magic, header.crc, header.attributes) == (
        theirs.magic,
        theirs.crc,
        theirs.attributes,
    )
    assert (header.base_timestamp, header.max_timestamp) == (theirs.first_timestamp, NOW + 7)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 2**31 - 2)
    assert header.last_sequence == 0
    assert (header.record_count, header.codec) == (3, 0)
    assert (header.is_control, header.is_transactional, header.has_log_append_time) == (
        False,
        False,
        False,
    )


def test_flags_are_read_from_the_attributes() -> None:
    header = read_header(with_fields(batch(), attributes=0x3B))
    assert (
        header.codec,
        header.has_log_append_time,
        header.is_transactional,
        header.is_control,
    ) == (3, True, True, True)


def test_batch_without_sequences_has_last_sequence_unset() -> None:
    """As in Kafka, the last sequence is -1."""
    assert read_header(batch(b"a", b"b")).last_sequence == -1


def test_offset_and_epoch_do_not_change_the_checksum() -> None:
    data = batch(b"a", b"b")
    moved = with_offset_and_epoch(read_header(data), data, 2**40, 17)
    header = read_header(moved)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (2**40, 2**40 + 1, 17)
    assert moved[16:] == data[16:]
    verify_checksum(header, moved)
    assert values(moved) == [b"a", b"b"]


def test_changed_max_timestamp_changes_the_checksum() -> None:
    data = bytes(with_max_timestamp(batch(b"a", b"b"), 8, NOW + 99))
    verify_checksum(read_header(data), data)
    assert [record.timestamp for record in DefaultRecordBatch(data)] == [NOW + 99, NOW + 99]


def test_split_returns_every_batch() -> None:
    parts = [batch(b"x" * size) for size in (0, 1, 500)]
    found = list(split_batches(b"".join(parts)))
    assert [bytes(data) for _, data in found] == parts
    assert [header.size for header, _ in found] == [len(part) for part in parts]
    assert list(split_batches(b"")) == []


@pytest.mark.parametrize("cut", [1, 8, 12, 16, 17, 60, 61, 70])
def test_torn_last_batch_is_refused_or_skipped(cut: int) -> None:
    data = batch(b"whole") + batch(b"torn" * 10)[:cut]
    assert [header.size for header, _ in split_batches(data, torn_tail=True)] == [
        len(batch(b"whole"))
    ]
    with pytest.raises(RecordError) as caught:
        list(split_batches(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("torn_tail", [True, False])
@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 13, 14, 48])
def test_impossible_length_is_refused(length: int, torn_tail: bool) -> None:
    """The next batch could not be found, or would precede this one."""
    with pytest.raises(RecordError) as caught:
        list(split_batches(with_fields(batch(), length=length), torn_tail=torn_tail))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert str(length) in str(caught.value) or str(length + 12) in str(caught.value)


@pytest.mark.parametrize(("magic", "code"), [(0, 87), (1, 87), (3, 2), (-1, 2)])
def test_other_magic_is_refused(magic: int, code: int) -> None:
    with pytest.raises(RecordError, match=f"{magic}") as caught:
        read_header(with_fields(batch(), magic=magic))
    assert caught.value.code == code


def test_wrong_checksum_is_refused() -> None:
    data = bytearray(batch(b"value"))
    data[-3] ^= 1
    with pytest.raises(RecordError, match="CRC32C") as caught:
        verify_checksum(read_header(data), data)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert f"{read_header(data).crc:#010x}" in str(caught.value)


def test_error_survives_pickling() -> None:
    error = pickle.loads(
        pickle.dumps(RecordError(ErrorCode.INVALID_RECORD, "why", ((3, "no key"),)))
    )
    assert (error.code, str(error), error.record_errors) == (
        ErrorCode.INVALID_RECORD,
        "why",
        ((3, "no key"),),
    )


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(1, 255))
def test_noise_is_batches_or_a_record_error(noise: bytes, at: int, flip: int) -> None:
    data = bytearray(batch(b"a" * 20) + noise)
    data[at % len(data)] ^= flip
    for torn_tail in (True, False):
        try:
            total = sum(len(part) for _, part in split_batches(data, torn_tail=torn_tail))
        except RecordError:
            continue
        assert total <= len(data)

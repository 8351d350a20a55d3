"""Validation of clients' batches.

The expected codes are those of Kafka 4.1's validator for the same bytes.
"""

from __future__ import annotations

import pytest
from kafka.record.default_records import DefaultRecordBatch

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header, verify_checksum
from purgatory_broker.log.compression import GZIP
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, SETTINGS, batch, with_checksum, with_fields

HOUR = 3_600_000
FLAGGED = {"attributes": 0x08}


def append_and_read(data: bytes, settings: LogSettings = SETTINGS) -> DefaultRecordBatch:
    """Append a batch, and return it as kafka-python reads it from the log."""
    log = PartitionLog.in_memory("t-0", settings)
    log.append_as_leader(data, 7, NOW)
    log.check()
    return DefaultRecordBatch(log.read(0, 10**9, 10**9, at_least_one=True))


def refusal(
    data: bytes, settings: LogSettings = SETTINGS, *, internal: bool = False
) -> RecordError:
    """Return the error of a batch, which leaves the log unchanged."""
    log = PartitionLog.in_memory("t-0", settings)
    with pytest.raises(RecordError) as caught:
        log.append_as_leader(data, 7, NOW, internal=internal)
    assert (log.end_offset, log.size_bytes, log.latest_epoch, len(log.producers)) == (0, 0, -1, 0)
    log.check()
    return caught.value


BAD = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "less than a length": (b"\0" * 11, ErrorCode.INVALID_RECORD),
    "torn": (batch()[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (batch() + batch(), ErrorCode.INVALID_RECORD),
    "magic 1": (with_fields(batch(), magic=1), ErrorCode.INVALID_RECORD),
    "magic 3": (with_fields(batch(), magic=3), ErrorCode.CORRUPT_MESSAGE),
    "length of no batch": (with_fields(batch(), length=13), ErrorCode.CORRUPT_MESSAGE),
    "wrong checksum": (with_fields(batch(), crc=0), ErrorCode.CORRUPT_MESSAGE),
    "base offset": (with_fields(batch(), base_offset=3), ErrorCode.INVALID_RECORD),
    "no records": (
        with_fields(batch(), record_count=0, last_offset_delta=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "negative count": (with_fields(batch(), record_count=-1), ErrorCode.INVALID_RECORD),
    "negative delta": (with_fields(batch(), last_offset_delta=-2), ErrorCode.INVALID_RECORD),
    "more offsets than records": (
        with_fields(batch(b"a", b"b"), last_offset_delta=5),
        ErrorCode.INVALID_RECORD,
    ),
    "too few": (
        with_fields(batch(b"a", b"b"), last_offset_delta=0, record_count=1),
        ErrorCode.INVALID_RECORD,
    ),
    "too many": (
        with_fields(batch(b"a", b"b"), last_offset_delta=2, record_count=3),
        ErrorCode.INVALID_RECORD,
    ),
    "control": (with_fields(batch(), attributes=0x20), ErrorCode.INVALID_RECORD),
    "no sequence": (batch(producer=(1, 0, -1)), ErrorCode.INVALID_RECORD),
    "transactional control": (
        with_fields(batch(producer=(1, 0, 0)), attributes=0x30),
        ErrorCode.INVALID_RECORD,
    ),
    "codec 5": (with_fields(batch(), attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "not gzip": (with_fields(batch(), attributes=GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),
    "garbage for records": (
        with_checksum(batch()[:61] + b"\x11" * 3 + batch()[64:]),
        ErrorCode.INVALID_RECORD,
    ),
    "record of another length": (
        with_checksum(batch()[:61] + bytes([batch()[61] - 2]) + batch()[62:]),
        ErrorCode.INVALID_RECORD,
    ),
    "two records of one offset": (
        with_checksum(batch(b"a", b"b").replace(b"\2\6key\2b", b"\0\6key\2b")),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD)
def test_invalid_batch_is_refused_with_kafkas_code(data: bytes, code: ErrorCode) -> None:
    assert refusal(data).code is code


def test_torn_batch_after_a_complete_one_is_ignored() -> None:
    """As in Kafka, only the complete batch is appended."""
    whole = batch(b"a")
    log = PartitionLog.in_memory("t-0", SETTINGS)
    log.append_as_leader(whole + batch(b"b")[:-1], 7, NOW)
    assert (log.end_offset, log.size_bytes) == (1, len(whole))


def test_batch_may_have_max_message_bytes() -> None:
    data = batch(b"x" * 100)
    assert append_and_read(data, LogSettings(max_message_bytes=len(data))).records_count == 1
    error = refusal(data, LogSettings(max_message_bytes=len(data) - 1))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert str(len(data)) in str(error)


def test_timestamps_too_far_ahead_are_refused() -> None:
    times = [NOW, NOW + HOUR, *[NOW + HOUR + 1] * 4]
    error = refusal(batch(*[b"v"] * 6, timestamps=times))
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [2, 3, 4, 5]
    assert str(NOW + HOUR + 1) in error.record_errors[0][1]
    assert append_and_read(batch(*[b"v"] * 2, timestamps=times[:2])).max_timestamp == NOW + HOUR


def test_timestamps_too_far_back_are_refused_if_configured() -> None:
    data = batch(b"v", timestamps=[NOW - 11])
    assert (
        refusal(data, LogSettings(message_timestamp_before_max_ms=10)).code
        is ErrorCode.INVALID_TIMESTAMP
    )
    assert append_and_read(data).max_timestamp == NOW - 11
    assert (
        append_and_read(
            batch(b"v", timestamps=[-1]), LogSettings(message_timestamp_before_max_ms=10)
        ).max_timestamp
        == -1
    )


@pytest.mark.parametrize("codec", [0, GZIP])
def test_log_append_time_replaces_the_producers_timestamps(codec: int) -> None:
    data = batch(b"a" * 99, b"b" * 99, timestamps=[5, NOW + 2 * HOUR], codec=codec)
    found = append_and_read(data, LogSettings(message_timestamp_type="LogAppendTime"))
    assert (found.timestamp_type, found.max_timestamp, found.compression_type) == (1, NOW, codec)
    assert found.validate_crc()
    assert [(each.timestamp, each.value) for each in found] == [(NOW, b"a" * 99), (NOW, b"b" * 99)]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_max_timestamp_is_that_of_the_records(codec: int) -> None:
    data = batch(b"a" * 99, b"b" * 99, timestamps=[NOW + 5, NOW], codec=codec)
    found = append_and_read(with_fields(data, max_timestamp=NOW + 10**12))
    assert found.max_timestamp == NOW + 5
    assert found.validate_crc()


def test_producers_must_not_set_log_append_time() -> None:
    data = with_fields(batch(b"a"), **FLAGGED)
    append_time = LogSettings(message_timestamp_type="LogAppendTime")
    refused = refusal(with_fields(batch(*[b"v"] * 4), **FLAGGED), append_time)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.record_errors] == [0, 1, 2, 3]
    assert refusal(with_fields(data, max_timestamp=-1)).code is ErrorCode.INVALID_TIMESTAMP
    found = append_and_read(data)
    assert (found.timestamp_type, found.max_timestamp) == (0, NOW)
    late = refusal(with_fields(data, max_timestamp=NOW + HOUR + 1))
    assert (late.code, late.record_errors[0][0]) == (ErrorCode.INVALID_TIMESTAMP, 0)


def test_compacted_topic_refuses_records_without_key() -> None:
    settings = LogSettings(compacted=True)
    error = refusal(batch(*[b"v"] * 5, key=None), settings)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [0, 1, 2, 3, 4]
    assert append_and_read(batch(b"a", key=b""), settings).records_count == 1


def test_internal_batch_may_be_a_control_batch() -> None:
    log = PartitionLog.in_memory("t-0", SETTINGS)
    marker = with_fields(batch(b"\0" * 6, key=b"\0\0\0\1", producer=(9, 0, -1)), attributes=0x20)
    assert log.append_as_leader(marker, 7, NOW, internal=True).base_offset == 0
    assert list(log.records()) == []
    assert not log.producers[9].batches
    assert refusal(with_fields(batch(), crc=1), internal=True).code is ErrorCode.CORRUPT_MESSAGE


def test_stored_batch_differs_only_in_offset_and_epoch() -> None:
    log = PartitionLog.in_memory("t-0", SETTINGS)
    data = batch(b"a", b"b", headers=[("h", b"1")])
    log.append_as_leader(data, 7, NOW)
    appended = log.append_as_leader(memoryview(data), 8, NOW)
    assert (appended.base_offset, appended.last_offset, appended.duplicate) == (2, 3, False)
    assert (appended.log_append_time_ms, appended.max_timestamp) == (-1, NOW)
    found = log.read(2, 10**6, 10**6, at_least_one=True)
    assert found[16:] == data[16:]
    assert (read_header(found).base_offset, read_header(found).leader_epoch) == (2, 8)
    verify_checksum(read_header(found), found)

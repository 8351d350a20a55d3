"""What a pass over a compacted log keeps, and what it removes."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log import compaction as compaction_module
from purgatory_broker.log.batch import DELETE_HORIZON
from purgatory_broker.log.compression import CODEC_NAMES
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, batch, headers_of, replicate
from tests.broker.log.compactions import compact, compaction, left, put
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import EVERYTHING, refused
from tests.broker.log.transactions import commit

RETENTION_MS = 1_000


def test_last_record_of_each_key_stays(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200, compacted=True)
    for number in range(12):
        put(log, (b"k%d" % (number % 3), b"%d" % number), (b"other", b"%d" % number))
    done = compact(log)
    assert left(log) == [
        (18, b"k0", b"9"),
        (20, b"k1", b"10"),
        (22, b"k2", b"11"),
        (23, b"other", b"11"),
    ]
    assert (log.log_start_offset, log.end_offset, log.cleaned_offset) == (0, 24, 24)
    assert (done.stats.records_read, done.stats.records_written) == (24, 4)
    assert log.record_count(0, 24) == 4
    assert put(log, (b"k0", b"new")) == 24


def test_reads_go_on_after_a_gap(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    for number in range(6):
        put(log, (b"k", b"%d" % number))
    put(log, (b"x", b"x"))
    compact(log)
    for offset in range(6):
        data = log.read(offset, 1, EVERYTHING, at_least_one=True)
        assert log.end_of_read(offset, len(data)) > offset
        assert [at for at, _, _ in left(log, offset)] == [5, 6]
        assert log.record_count(offset, 7) == 2
    assert log.offset_for_timestamp(NOW, 7) == (NOW, 5)


def test_record_of_a_batch_is_removed_alone(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", b"2"), producer=(5, 0, 7))
    put(log, (b"b", b"2"))
    compact(log)
    first, _ = headers_of(log)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert (first.base_sequence, first.last_sequence) == (7, 10)
    assert left(log) == [(2, b"c", b"1"), (3, b"a", b"2"), (4, b"b", b"2")]
    assert [log.record_count(offset, 5) for offset in range(6)] == [3, 3, 3, 2, 1, 0]


@pytest.mark.parametrize("codec", range(5), ids=CODEC_NAMES)
def test_compressed_batch_is_compressed_again(make_log: MakeLog, codec: int) -> None:
    log = make_log(compacted=True)
    value = b"value" * 20_000
    for key in (b"a", b"b"):
        data = batch(b"old", value, key=key, codec=codec, headers=[("h", b"1")])
        log.append_as_leader(data, 1, NOW)
    compact(log)
    assert left(log) == [(1, b"a", value), (3, b"b", value)]
    assert [header.codec for header in headers_of(log)] == [codec, codec]
    if codec:
        assert log.size_bytes < len(value)


@pytest.mark.parametrize("codec", range(1, 5), ids=CODEC_NAMES[1:])
def test_other_clients_read_what_was_compressed_again(codec: int) -> None:
    log = PartitionLog.in_memory("t-0", LogSettings(compacted=True))
    log.append_as_leader(batch(b"old", b"new" * 30_000, None, codec=codec), 1, NOW)
    log.append_as_leader(batch(b"other" * 30_000, b"x", key=b"x", codec=codec), 1, NOW)
    compact(log)
    from kafka.record import MemoryRecords

    found = MemoryRecords(log.read(0, EVERYTHING, EVERYTHING, at_least_one=True))
    records = [each for data in iter(found.next_batch, None) for each in data]
    assert [(each.offset, each.key, each.value) for each in records] == [
        (2, b"key", None),
        (4, b"x", b"x"),
    ]
    assert {each.timestamp for each in records} == {NOW}


def test_batch_of_an_unknown_codec_is_kept(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(compacted=True)
    log.append_as_leader(batch(b"1", b"2", codec=1), 1, NOW)
    put(log, (b"key", b"3"))
    put(log, (b"key", b"4"))
    with monkeypatch.context() as patch:
        patch.setattr(compaction_module, "decompress_records", lambda header, data: None)
        compact(log)
    assert len(left(log)) == 4


# -- tombstones


def test_tombstone_stays_until_its_horizon(make_log: MakeLog) -> None:
    log = make_log(compacted=True, delete_retention_ms=RETENTION_MS)
    put(log, (b"a", b"1"))
    put(log, (b"b", b"1"), (b"a", None), now_ms=NOW + 5)
    put(log, (b"last", b"1"))
    compact(log, now_ms=NOW + 10)
    assert left(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"last", b"1")]
    _, header, _ = headers_of(log)  # The first batch stays for its leader epoch.
    assert (header.delete_horizon_ms, header.base_timestamp) == (NOW + 10 + RETENTION_MS,) * 2
    assert header.attributes & DELETE_HORIZON
    assert header.max_timestamp == NOW + 5
    assert {record.timestamp for record in log.records() if record.offset < 3} == {NOW + 5}
    compact(log, now_ms=NOW + 9 + RETENTION_MS)
    assert len(left(log)) == 3
    compact(log, now_ms=NOW + 10 + RETENTION_MS)
    assert left(log) == [(1, b"b", b"1"), (3, b"last", b"1")]
    # It is not set anew.
    assert [header.delete_horizon_ms for header in headers_of(log)][1] == NOW + 10 + RETENTION_MS


def test_overwritten_tombstone_goes_at_once(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    put(log, (b"a", None))
    put(log, (b"a", b"1"))
    compact(log)
    assert left(log) == [(1, b"a", b"1")]


def test_records_with_the_time_of_the_append_keep_it(make_log: MakeLog) -> None:
    log = make_log(compacted=True, message_timestamp_type="LogAppendTime", delete_retention_ms=5)
    put(log, (b"a", b"1"), (b"b", None), (b"a", b"2"), now_ms=NOW + 3)
    compact(log, now_ms=NOW + 20)
    assert [record.timestamp for record in log.records()] == [NOW + 3, NOW + 3]
    (header,) = headers_of(log)
    assert header.has_log_append_time
    assert header.delete_horizon_ms == NOW + 25


def test_keyless_records_go_with_a_count(make_log: MakeLog) -> None:
    log = make_log()
    put(log, (None, b"1"), (b"a", b"1"))
    done = compact(log)
    assert (left(log), done.stats.keyless_records) == ([(1, b"a", b"1")], 1)


def test_pass_ends_where_the_keys_take_too_much_memory(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_module, "MAX_KEY_BYTES", 500)
    log = make_log(segment_bytes=200, compacted=True)
    for number in range(24):
        put(log, (b"k%d" % (number % 5), b"%d" % number))
    log.roll()
    ends: list[int] = []
    is_partial = True
    while is_partial:
        done = compaction(log)
        for _ in done.run():
            pass
        log.check()
        assert log.cleaned_offset == done.end_offset
        ends.append(done.end_offset)
        is_partial = done.is_partial
    assert len(ends) > 2
    assert ends == sorted(set(ends))
    assert left(log) == [(at, b"k%d" % (at % 5), b"%d" % at) for at in range(19, 24)]


# -- what is left alone


def test_active_segment_is_left_alone(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    put(log, (b"a", b"3"))
    for _ in compaction(log).run():
        pass
    assert [at for at, _, _ in left(log)] == [1, 2]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_nothing_is_compacted_after_the_limit(make_log: MakeLog, limit: int) -> None:
    log = make_log(compacted=True)
    for number in range(3):
        put(log, (b"a", b"%d" % number))
        log.roll()
    compact(log, limit_offset=limit)
    assert [at for at, _, _ in left(log)] == list(range(limit - 1, 3))
    assert log.cleaned_offset == limit


def test_open_transaction_keeps_what_follows(make_log: MakeLog) -> None:
    log = make_log(compacted=True, segment_bytes=80)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"), producer=(7, 0, 0), transactional=True)
    put(log, (b"a", b"4"))
    compact(log)
    assert [at for at, _, _ in left(log)] == [1, 2, 3]
    commit(log)
    log.replicated(log.end_offset)
    compact(log)
    assert [at for at, _, _ in left(log)] == [3]


# -- batches without records


def test_last_batches_of_a_producer_stay(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    for sequence in range(8):
        put(log, (b"a", b"%d" % sequence), producer=(5, 2, sequence))
    put(log, (b"a", b"last"))
    compact(log)
    assert [header.base_offset for header in headers_of(log) if header.has_producer][-5:] == [
        *range(3, 8)
    ]
    assert left(log) == [(8, b"a", b"last")]
    assert log.append_as_leader(
        batch(b"7", key=b"a", producer=(5, 2, 7)), 1, NOW
    ).duplicate  # The batch that it was sent in is empty now.
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        put(log, (b"a", b"9"), producer=(5, 2, 9))
    log.producers.expire(NOW + 10, 5)
    compact(log)
    assert not [header for header in headers_of(log) if header.has_producer][1:]


def test_empty_batch_says_what_the_full_one_did(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    put(log, (b"a", b"1"), (b"a", b"2"), producer=(5, 3, 4), now_ms=NOW + 7)
    put(log, (b"a", b"3"))
    before, _ = headers_of(log)
    compact(log)
    empty, _ = headers_of(log)
    changed = {"crc": empty.crc, "length": 49, "record_count": 0, "base_timestamp": -1}
    assert empty == before._replace(**changed)


def test_leader_epochs_stay(make_log: MakeLog) -> None:
    leader, follower = make_log(compacted=True), make_log(compacted=True)
    for epoch in (1, 3, 4):
        for _ in range(2):
            put(leader, (b"a", b"%d" % epoch), epoch=epoch)
    compact(leader)
    assert [header.base_offset for header in headers_of(leader)] == [0, 2, 4, 5]
    replicate(leader, follower)
    for epoch in range(6):
        assert follower.end_offset_for_epoch(epoch) == leader.end_offset_for_epoch(epoch)

"""What a pass over a compacted log does with transactions and their markers."""

from __future__ import annotations

import pytest

from purgatory_broker.log.control_batch import read_end_marker
from tests.broker.log.batches import NOW, headers_of
from tests.broker.log.compactions import compact, compaction, left, put
from tests.broker.log.conftest import MakeLog
from tests.broker.log.transactions import abort, commit, read_committed, stable_offset

RETENTION_MS = 1_000


def test_records_of_aborted_transactions_go(make_log: MakeLog) -> None:
    log = make_log(compacted=True, segment_bytes=150)
    put(log, (b"a", b"committed"))
    for sequence in range(4):
        put(log, (b"a", b"aborted"), producer=(7, 0, sequence), transactional=True)
    abort(log)
    put(log, (b"b", b"committed"), producer=(7, 0, 4), transactional=True)
    commit(log)
    log.replicated(log.end_offset)
    expected = read_committed(log, log.end_offset)
    compact(log)
    assert [(key, value) for _, key, value in left(log)] == [
        (b"a", b"committed"),
        (b"b", b"committed"),
    ]
    assert read_committed(log, log.end_offset) == expected


def test_transaction_of_two_passes_is_aborted_in_both(make_log: MakeLog) -> None:
    """As in KAFKA-8351 the marker is in a later segment than the pass reaches."""
    log = make_log(compacted=True)
    put(log, (b"a", b"committed"))
    put(log, (b"a", b"aborted"), producer=(7, 0, 0), transactional=True)
    log.roll()
    put(log, (b"b", b"aborted"), producer=(7, 0, 1), transactional=True)
    abort(log)
    log.replicated(log.end_offset)
    for _ in compaction(log).run():
        pass
    log.check()
    assert [at for at, _, value in left(log) if value == b"committed"] == [0]
    assert read_committed(log, log.end_offset) == [(0, b"committed")]
    compact(log)
    assert left(log) == [(0, b"a", b"committed")]


@pytest.mark.parametrize("commits", [True, False])
def test_marker_goes_after_its_records_and_the_horizon(make_log: MakeLog, commits: bool) -> None:
    """The marker of KAFKA-4529 and KAFKA-8522: by its transaction's records, not by a key."""
    log = make_log(compacted=True, delete_retention_ms=RETENTION_MS)
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    marker = commit(log) if commits else abort(log)
    # The marker of another transaction has the same key, and this producer a later batch.
    put(log, (b"b", b"1"), producer=(8, 0, 0), transactional=True)
    commit(log, producer_id=8)
    for sequence in range(1, 6):
        put(log, (b"c", b"2"), producer=(7, 0, sequence))
    put(log, (b"a", b"2"))
    log.replicated(log.end_offset)

    def markers() -> list[int]:
        return [
            header.base_offset for header, data in log.batches() if read_end_marker(header, data)
        ]

    compact(log, now_ms=NOW)  # Removes the record, whose batch was there; but not the first one.
    assert markers() == [marker, 3]
    compact(log, now_ms=NOW + 1)
    # The first batch stays for its leader epoch, and with it the marker.
    assert markers() == [marker, 3]
    log.advance_log_start_offset(1)
    put(log, (b"x", b"2"), epoch=2)
    assert stable_offset(log, log.end_offset) == log.end_offset


def test_marker_without_records_has_a_horizon(make_log: MakeLog) -> None:
    log = make_log(compacted=True, delete_retention_ms=RETENTION_MS)
    put(log, (b"first", b"of the epoch"))
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    marker = commit(log)
    for sequence in range(1, 6):
        put(log, (b"a", b"2"), producer=(7, 0, sequence))
    log.replicated(log.end_offset)

    def marker_headers() -> list[int | None]:
        return [
            header.delete_horizon_ms
            for header in headers_of(log)
            if header.is_control and header.base_offset == marker and header.record_count
        ]

    compact(log, now_ms=NOW)
    assert marker_headers() == [None]  # Its record was there, and is gone now.
    compact(log, now_ms=NOW + 1)
    assert marker_headers() == [NOW + 1 + RETENTION_MS]
    compact(log, now_ms=NOW + RETENTION_MS)
    assert marker_headers() == [NOW + 1 + RETENTION_MS]
    compact(log, now_ms=NOW + 1 + RETENTION_MS)
    assert marker_headers() == []
    assert [header.base_offset for header in headers_of(log)][:2] == [0, marker + 1]


def test_marker_that_has_a_producers_epoch_stays(make_log: MakeLog) -> None:
    log = make_log(compacted=True, delete_retention_ms=0)
    put(log, (b"first", b"of the epoch"))
    put(log, (b"a", b"1"), producer=(7, 0, 0), transactional=True)
    commit(log, epoch=1)
    put(log, (b"a", b"2"))
    log.replicated(log.end_offset)
    for times in range(4):
        compact(log, now_ms=NOW + times)
    assert log.producers[7].epoch == 1
    log.check()  # Which compares with what the batches say.
    assert [header.base_offset for header in headers_of(log) if header.is_control] == [2]

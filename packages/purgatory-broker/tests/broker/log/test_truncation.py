"""The log of a follower: what it takes from its leader, and where it is truncated."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.log.batches import (
    NOW,
    append,
    batch,
    contents,
    replicate,
    with_fields,
)
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import EVERYTHING, SMALL, refused


def test_follower_has_the_leaders_bytes(make_log: MakeLog) -> None:
    leader, follower = (
        make_log(message_timestamp_type="LogAppendTime"),
        make_log(segment_bytes=SMALL),
    )
    for number in range(7):
        append(leader, b"%d" % number, epoch=number // 3)
    leader.append_as_leader(batch(b"z" * 5_000, codec=1), 4, NOW)
    replicate(leader, follower)
    assert [bytes(data) for _, data in follower.batches()] == [
        bytes(data) for _, data in leader.batches()
    ]
    assert [follower.end_offset_for_epoch(epoch) for epoch in range(6)] == [
        leader.end_offset_for_epoch(epoch) for epoch in range(6)
    ]
    assert follower.latest_epoch == 4


def test_follower_skips_a_torn_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, b"a")
    append(leader, b"b")
    data = leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True)
    follower.append_as_follower(data[:-1])
    assert follower.end_offset == 1
    follower.append_as_follower(leader.read(1, EVERYTHING, EVERYTHING, at_least_one=True)[:30])
    assert follower.end_offset == 1
    follower.append_as_follower(b"")
    replicate(leader, follower)
    assert contents(follower) == contents(leader)


def test_follower_refuses_overlaps(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    for _ in range(4):
        append(leader)
    parts = [bytes(data) for _, data in leader.batches()]
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.append_as_follower(parts[0] + parts[0])
    follower.append_as_follower(parts[0] + parts[1])
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.append_as_follower(parts[1] + parts[2])
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.append_as_follower(with_fields(batch(b"a", b"b", b"c"), base_offset=1))
    assert follower.end_offset == 2


def test_follower_refuses_a_corrupt_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, b"a")
    append(leader, b"b")
    data = bytearray(leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True))
    data[-3] ^= 1
    with refused(ErrorCode.CORRUPT_MESSAGE):
        follower.append_as_follower(bytes(data))
    assert (follower.end_offset, follower.size_bytes, follower.latest_epoch) == (0, 0, -1)


def test_follower_skips_batches_of_a_later_epoch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    for epoch in (1, 2, 3):
        append(leader, epoch=epoch)
    data = leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True)
    follower.append_as_follower(data, max_epoch=2)
    assert (follower.end_offset, follower.latest_epoch) == (2, 2)


def test_empty_follower_may_start_inside_a_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, *[b"v"] * 10)
    append(leader, b"w")
    leader.advance_log_start_offset(4)
    follower.truncate_fully_and_start_at(4)
    replicate(leader, follower)
    follower.check()
    assert (follower.log_start_offset, follower.end_offset, follower.epoch_start_offset(1)) == (
        4,
        11,
        4,
    )
    assert contents(follower) == contents(leader)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.read(3, 1, 11, at_least_one=True)


def test_new_epoch_starts_at_the_end_of_the_log(make_log: MakeLog) -> None:
    log = make_log()
    log.begin_epoch(2)
    assert (log.latest_epoch, log.end_offset_for_epoch(2), log.epoch_start_offset(2)) == (
        2,
        (2, 0),
        0,
    )
    append(log, b"a", b"b", epoch=2)
    log.begin_epoch(5)
    assert (
        log.end_offset_for_epoch(2),
        log.end_offset_for_epoch(4),
        log.end_offset_for_epoch(5),
        log.end_offset_for_epoch(6),
    ) == (
        (2, 2),
        (2, 2),
        (5, 2),
        (-1, -1),
    )
    assert log.epoch_start_offset(5) == 2
    log.truncate_to(2)
    assert log.latest_epoch == 2


def test_diverging_follower_finds_where_to_truncate(make_log: MakeLog) -> None:
    old, new = make_log(), make_log()
    append(old, b"both", epoch=1)
    replicate(old, new)
    append(old, b"lost", epoch=1)
    append(old, b"lost too", epoch=1)
    new.begin_epoch(2)
    append(new, b"kept", epoch=2)
    epoch, end = new.end_offset_for_epoch(old.latest_epoch)
    assert (epoch, end) == (1, 1)
    old.truncate_to(end)
    replicate(new, old)
    assert contents(old) == contents(new) == [(0, b"both"), (1, b"kept")]


@pytest.mark.parametrize("offset", range(12))
def test_truncated_log_ends_at_a_batch(make_log: MakeLog, offset: int) -> None:
    log = make_log(segment_bytes=SMALL)
    for number in range(5):
        append(log, b"%d" % number, b"%d" % number, epoch=number)
    before = contents(log)
    log.truncate_to(offset)
    log.check()
    end = min(offset // 2 * 2, 10)
    assert (log.end_offset, contents(log)) == (end, before[:end])
    assert log.latest_epoch == end // 2 - 1
    assert append(log, b"new", epoch=9) == end
    assert contents(log)[-1] == (end, b"new")


def test_truncation_before_the_start_leaves_an_empty_log(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for _ in range(6):
        append(log)
    log.advance_log_start_offset(4)
    log.truncate_to(2)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.latest_epoch) == (2, 2, -1)
    assert append(log) == 2


def test_truncation_of_all_records_keeps_the_log_start_offset(make_log: MakeLog) -> None:
    log = make_log()
    append(log, *[b"v"] * 10)
    log.advance_log_start_offset(4)
    log.truncate_to(7)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)


@pytest.mark.parametrize("offset", [0, 2, 3, 5, 6, 7, 100])
def test_fully_truncated_log_starts_at_any_offset(make_log: MakeLog, offset: int) -> None:
    log = make_log(segment_bytes=SMALL)
    for _ in range(6):
        append(log)
    log.truncate_fully_and_start_at(offset)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (
        offset,
        offset,
        -1,
        0,
    )
    assert append(log, b"new") == offset
    assert contents(log) == [(offset, b"new")]

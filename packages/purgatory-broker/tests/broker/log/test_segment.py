"""Segments and their index."""

from __future__ import annotations

import pytest

from purgatory_broker.log.batch import read_header, split_batches, with_offset_and_epoch
from purgatory_broker.log.segment import BatchEntry, Segment
from purgatory_broker.log.store import MemoryStore
from tests.broker.log.batches import NOW, batch

#: The record counts of the fixture's batches: offsets 100-102, 103, 104-108 and 109.
COUNTS = (3, 1, 5, 1)
TIMES = (NOW, NOW + 50, NOW + 20, NOW + 60)


@pytest.fixture
def segment() -> Segment:
    """Return four batches whose timestamps are not in order."""
    segment = Segment(100, MemoryStore())
    for count, time in zip(COUNTS, TIMES, strict=True):
        data = batch(*[b"v"] * count, timestamps=[time] * count)
        header = read_header(data)
        base = segment.next_offset
        segment.append(
            with_offset_and_epoch(header, data, base, 1),
            [BatchEntry(base, base + count, len(data), header.max_timestamp)],
        )
    segment.check()
    return segment


def base_offsets(data: bytes) -> list[int]:
    """Return the base offsets of batches."""
    return [header.base_offset for header, _ in split_batches(data)]


@pytest.mark.parametrize(
    ("offset", "first"), [(100, 100), (102, 100), (103, 103), (104, 104), (108, 104), (109, 109)]
)
def test_read_starts_with_the_batch_that_contains_the_offset(
    segment: Segment, offset: int, first: int
) -> None:
    everything = [100, 103, 104, 109]
    assert (
        base_offsets(segment.read(offset, 10**6, 110, False))
        == everything[everything.index(first) :]
    )


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (0, []),
        (100, []),
        (102, []),
        (103, [100]),
        (104, [100, 103]),
        (108, [100, 103]),
        (109, [100, 103, 104]),
        (110, None),
        (999, None),
    ],
)
def test_read_ends_at_or_before_the_limit(
    segment: Segment, limit: int, found: list[int] | None
) -> None:
    wanted = [100, 103, 104, 109] if found is None else found
    data = segment.read(100, 10**6, limit, True)
    assert base_offsets(data) == wanted
    assert segment.bytes_between(100, limit) == len(data)


def test_read_returns_whole_batches_within_max_bytes(segment: Segment) -> None:
    sizes = [header.size for header, _ in split_batches(segment.read(100, 10**6, 110, False))]
    for count in range(1, 5):
        assert len(base_offsets(segment.read(100, sum(sizes[:count]), 110, False))) == count
        assert len(base_offsets(segment.read(100, sum(sizes[:count]) + 1, 110, False))) == count
        assert len(base_offsets(segment.read(100, sum(sizes[:count]) - 1, 110, False))) == count - 1
    for max_bytes in (-1, 0, sizes[0] - 1):
        assert segment.read(100, max_bytes, 110, False) == b""
        assert base_offsets(segment.read(100, max_bytes, 110, True)) == [100]
    assert segment.read(100, 0, 102, True) == b""


@pytest.mark.parametrize(
    ("offset", "base"),
    [(100, 100), (102, 100), (103, 103), (107, 104), (109, 109), (110, 110), (999, 110)],
)
def test_batch_start_of_every_offset(segment: Segment, offset: int, base: int) -> None:
    assert segment.batch_start(offset) == base


@pytest.mark.parametrize(("base", "left"), [(100, 0), (103, 1), (104, 2), (109, 3), (110, 4)])
def test_truncated_segment_can_be_appended_to(segment: Segment, base: int, left: int) -> None:
    segment.truncate_to(base)
    segment.check()
    assert (len(segment), segment.next_offset) == (left, base)
    assert segment.max_timestamp == max(TIMES[:left], default=-1)
    data = batch(b"again")
    header = read_header(data)
    segment.append(
        with_offset_and_epoch(header, data, base, 2), [BatchEntry(base, base + 1, len(data), NOW)]
    )
    segment.check()
    assert base_offsets(segment.read(base, 1, base + 1, True)) == [base]


def test_first_index_at_or_after_a_time(segment: Segment) -> None:
    assert [
        segment.first_index_at_or_after(NOW + time, 100) for time in (-5, 0, 1, 50, 51, 60, 61)
    ] == [
        0,
        0,
        1,
        1,
        3,
        3,
        4,
    ]
    assert segment.first_index_at_or_after(NOW + 10, 104) == 2


def test_headers_and_batches_by_index(segment: Segment) -> None:
    assert [segment.header(index).base_offset for index in range(4)] == [100, 103, 104, 109]
    assert read_header(segment.batch(2)) == segment.header(2)
    assert len(segment.batch(3)) == segment.header(3).size

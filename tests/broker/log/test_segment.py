"""Segments and their index."""

from __future__ import annotations

import pytest

from request_purgatory.broker.log import read_header, split, stamped
from request_purgatory.broker.log.segment import Placed, Segment
from request_purgatory.broker.log.store import MemoryStore
from tests.broker.log.batches import NOW, batch

#: Of the fixture's batches: offsets 100-102, 103, 104-108, 109.
COUNTS = (3, 1, 5, 1)
TIMES = (NOW, NOW + 50, NOW + 20, NOW + 60)


@pytest.fixture
def segment() -> Segment:
    """Four batches, whose times are not in order."""
    segment = Segment(100, MemoryStore())
    for count, time in zip(COUNTS, TIMES, strict=True):
        data = batch(*[b"v"] * count, timestamps=[time] * count)
        header = read_header(data)
        base = segment.next_offset
        segment.append(
            stamped(header, data, base, 1),
            [Placed(base, base + count, len(data), header.max_timestamp)],
        )
    segment.check()
    return segment


def offsets(data: bytes) -> list[int]:
    """The base offsets of batches."""
    return [header.base_offset for header, _ in split(data)]


@pytest.mark.parametrize(
    ("offset", "first"), [(100, 100), (102, 100), (103, 103), (104, 104), (108, 104), (109, 109)]
)
def test_read_begins_with_the_batch_that_has_the_offset(
    segment: Segment, offset: int, first: int
) -> None:
    """As a whole."""
    everything = [100, 103, 104, 109]
    assert offsets(segment.read(offset, 10**6, 110, False)) == everything[everything.index(first) :]


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
def test_read_ends_before_the_limit(segment: Segment, limit: int, found: list[int] | None) -> None:
    """No batch that goes beyond it."""
    wanted = [100, 103, 104, 109] if found is None else found
    data = segment.read(100, 10**6, limit, True)
    assert offsets(data) == wanted
    assert segment.bytes_between(100, limit) == len(data)


def test_read_gives_whole_batches_within_the_bytes(segment: Segment) -> None:
    """One that is larger only if one is asked for at least."""
    sizes = [header.size for header, _ in split(segment.read(100, 10**6, 110, False))]
    for count in range(1, 5):
        assert len(offsets(segment.read(100, sum(sizes[:count]), 110, False))) == count
        assert len(offsets(segment.read(100, sum(sizes[:count]) + 1, 110, False))) == count
        assert len(offsets(segment.read(100, sum(sizes[:count]) - 1, 110, False))) == count - 1
    for max_bytes in (-1, 0, sizes[0] - 1):
        assert segment.read(100, max_bytes, 110, False) == b""
        assert offsets(segment.read(100, max_bytes, 110, True)) == [100]
    assert segment.read(100, 0, 102, True) == b""


@pytest.mark.parametrize(
    ("offset", "base"),
    [(100, 100), (102, 100), (103, 103), (107, 104), (109, 109), (110, 110), (999, 110)],
)
def test_every_offset_lies_in_a_batch(segment: Segment, offset: int, base: int) -> None:
    """Or at the end."""
    assert segment.base_of(offset) == base


@pytest.mark.parametrize(("base", "left"), [(100, 0), (103, 1), (104, 2), (109, 3), (110, 4)])
def test_truncated_segment_is_as_if_nothing_had_followed(
    segment: Segment, base: int, left: int
) -> None:
    """Index, times and bytes; and it grows again."""
    segment.truncate(base)
    segment.check()
    assert (len(segment), segment.next_offset) == (left, base)
    assert segment.max_timestamp == max(TIMES[:left], default=-1)
    data = batch(b"again")
    header = read_header(data)
    segment.append(stamped(header, data, base, 2), [Placed(base, base + 1, len(data), NOW)])
    segment.check()
    assert offsets(segment.read(base, 1, base + 1, True)) == [base]


def test_first_batch_of_a_time_is_the_first_in_the_log(segment: Segment) -> None:
    """Not the nearest in time; and none before an offset's."""
    assert [segment.first_dated(NOW + time, 100) for time in (-5, 0, 1, 50, 51, 60, 61)] == [
        0,
        0,
        1,
        1,
        3,
        3,
        4,
    ]
    assert segment.first_dated(NOW + 10, 104) == 2


def test_headers_and_batches_are_had_by_index(segment: Segment) -> None:
    """Backwards too."""
    assert [header.base_offset for header in segment.headers_backwards()] == [109, 104, 103, 100]
    assert read_header(segment.batch(2)) == segment.header(2)
    assert len(segment.batch(3)) == segment.header(3).size

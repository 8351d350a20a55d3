"""Leader epochs and their end offsets."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.log.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Return epochs 2, 3 and 6, which start at offsets 10, 20 and 30; the log ends at 40."""
    epochs = LeaderEpochs("t-0")
    for epoch, start in ((2, 10), (3, 20), (6, 30)):
        epochs.assign(epoch, start)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (3, 30)),
        (4, (3, 30)),
        (5, (3, 30)),
        (6, (6, 40)),
        (7, (-1, -1)),
    ],
)
def test_epoch_ends_where_the_next_one_starts(
    epochs: LeaderEpochs, asked: int, answer: tuple[int, int]
) -> None:
    assert epochs.end_offset_for(asked, 40) == answer


def test_empty_log_has_no_epochs() -> None:
    epochs = LeaderEpochs("t-0")
    assert (
        epochs.latest,
        epochs.end_offset_for(0, 0),
        epochs.epoch_at(0),
        epochs.start_offset_of(1),
    ) == (
        -1,
        (-1, -1),
        -1,
        None,
    )


def test_offset_belongs_to_the_last_epoch_that_started_before(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 30, 99)] == [-1, 2, 2, 3, 6, 6]
    assert [epochs.start_offset_of(epoch) for epoch in (1, 2, 4, 6)] == [None, 10, None, 30]


def test_assigning_the_latest_epoch_again_keeps_its_start(epochs: LeaderEpochs) -> None:
    epochs.assign(6, 35)
    epochs.assign(-1, 36)
    assert epochs.entries == [(2, 10), (3, 20), (6, 30)]


def test_epoch_without_records_is_replaced_without_a_warning(
    epochs: LeaderEpochs, caplog: pytest.LogCaptureFixture
) -> None:
    epochs.assign(7, 40)
    epochs.assign(9, 40)
    assert epochs.entries[-2:] == [(6, 30), (9, 40)]
    assert not caplog.records


def test_contradicting_entries_are_removed(
    epochs: LeaderEpochs, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning is logged, since these epochs had records."""
    epochs.assign(4, 15)
    assert epochs.entries == [(2, 10), (4, 15)]
    assert caplog.records[0].levelno == logging.WARNING
    assert "(6, 30)" in caplog.text


def test_truncation_from_the_end_removes_epochs_that_start_there(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(31)
    assert epochs.latest == 6
    epochs.truncate_from_end(30)
    assert epochs.latest == 3
    epochs.truncate_from_end(0)
    assert epochs.entries == []


def test_truncation_from_the_start_moves_the_epoch_that_contains_it(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_start(5)
    assert epochs.entries[0] == (2, 10)
    epochs.truncate_from_start(20)
    assert epochs.entries == [(3, 20), (6, 30)]
    epochs.truncate_from_start(29)
    assert epochs.entries == [(3, 29), (6, 30)]
    epochs.truncate_from_start(40)
    assert epochs.entries == [(6, 40)]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))),
    st.integers(-1, 13),
    st.integers(12, 20),
)
def test_epochs_and_offsets_always_increase(
    entries: list[tuple[int, int]], asked: int, end: int
) -> None:
    epochs = LeaderEpochs("t-0")
    for epoch, start in entries:
        epochs.assign(epoch, start)
    epochs.check(0, end)
    by_offset = [epochs.epoch_at(offset) for offset in range(end)]
    found, end_offset = epochs.end_offset_for(asked, end)
    known = [epoch for epoch, _ in epochs.entries]
    if asked < 0 or not known or asked > known[-1]:
        assert (found, end_offset) == (-1, -1)
    else:
        assert end_offset == sum(1 for epoch in by_offset if epoch <= asked)
        assert found == max((epoch for epoch in known if epoch <= asked), default=asked)

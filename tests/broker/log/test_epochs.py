"""Leader epochs and where they end."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from request_purgatory.broker.log.epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epochs 2, 3 and 6, at offsets 10, 20 and 30 of a log that goes to 40."""
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
def test_epoch_ends_where_the_next_begins(
    epochs: LeaderEpochs, asked: int, answer: tuple[int, int]
) -> None:
    """One that is not known as the largest before it; one before all at the first's start.

    One after all nowhere.
    """
    assert epochs.end_offset_for(asked, 40) == answer


def test_no_epoch_ends_anywhere_in_an_empty_log() -> None:
    """There is none."""
    epochs = LeaderEpochs("t-0")
    assert (epochs.latest, epochs.end_offset_for(0, 0), epochs.epoch_at(0), epochs.start_of(1)) == (
        -1,
        (-1, -1),
        -1,
        None,
    )


def test_offset_lies_in_the_last_epoch_that_began_before(epochs: LeaderEpochs) -> None:
    """Or at it."""
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 30, 99)] == [-1, 2, 2, 3, 6, 6]
    assert [epochs.start_of(epoch) for epoch in (1, 2, 4, 6)] == [None, 10, None, 30]


def test_epoch_that_goes_on_begins_where_it_began(epochs: LeaderEpochs) -> None:
    """Each batch assigns its epoch."""
    epochs.assign(6, 35)
    epochs.assign(-1, 36)
    assert epochs.entries == [(2, 10), (3, 20), (6, 30)]


def test_epoch_without_records_gives_way_quietly(
    epochs: LeaderEpochs, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that was elected and wrote nothing is nothing that anybody asks for."""
    epochs.assign(7, 40)
    epochs.assign(9, 40)
    assert epochs.entries[-2:] == [(6, 30), (9, 40)]
    assert not caplog.records


def test_entries_that_contradict_a_newer_one_go(
    epochs: LeaderEpochs, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning, since there were records."""
    epochs.assign(4, 15)
    assert epochs.entries == [(2, 10), (4, 15)]
    assert caplog.records[0].levelno == logging.WARNING
    assert "(6, 30)" in caplog.text


def test_cut_at_the_end_takes_epochs_that_begin_there(epochs: LeaderEpochs) -> None:
    """One that begins before goes on."""
    epochs.truncate_end(31)
    assert epochs.latest == 6
    epochs.truncate_end(30)
    assert epochs.latest == 3
    epochs.truncate_end(0)
    assert epochs.entries == []


def test_cut_at_the_start_moves_the_epoch_that_lies_there(epochs: LeaderEpochs) -> None:
    """Older ones go."""
    epochs.truncate_start(5)
    assert epochs.entries[0] == (2, 10)
    epochs.truncate_start(20)
    assert epochs.entries == [(3, 20), (6, 30)]
    epochs.truncate_start(29)
    assert epochs.entries == [(3, 29), (6, 30)]
    epochs.truncate_start(40)
    assert epochs.entries == [(6, 40)]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))),
    st.integers(-1, 13),
    st.integers(12, 20),
)
def test_both_columns_always_grow(entries: list[tuple[int, int]], asked: int, end: int) -> None:
    """Whatever is assigned; and the answer is as a list of all offsets has it."""
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

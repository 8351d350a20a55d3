"""Tests of the share coordinator, with a log that the test controls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.sharing.records import StateBatch
from purgatory_broker.sharing.share_coordinator import ShareCoordinator, StateResult
from purgatory_broker.sharing.state import ShareKey, ShareState
from purgatory_broker.sharing.state_records import (
    SNAPSHOT,
    UPDATE,
    ShareRecordError,
    decode_key,
    decode_value,
    encode_key,
    encode_snapshot,
    encode_update,
)

TOPIC_ID = UUID(int=7)
KEY = ShareKey("workers", TOPIC_ID, 0)
Append = tuple[bytes, bytes | None]


class Log:
    """A partition of `__share_group_state` whose appends the test ends."""

    def __init__(self) -> None:
        self.records: list[Append] = []
        self.error = ErrorCode.NONE
        self.is_held = False
        self.held: list[Callable[[ErrorCode], None]] = []
        #: The offset before which records were deleted.
        self.start = 0

    def append(
        self, _partition: int, records: list[Append], done: Callable[[ErrorCode, int], None]
    ) -> None:
        """Append, or answer with the error that the test has set."""
        offset = len(self.records)
        if self.is_held:
            self.records += records
            self.held.append(lambda error: done(error, offset))
            return
        if self.error is ErrorCode.NONE:
            self.records += records
        done(self.error, offset)

    def delete_before(self, _partition: int, offset: int, done: Callable[[], None]) -> None:
        self.start = offset
        done()

    def loaded(self) -> list[tuple[int, bytes, bytes | None]]:
        """Return the records that are left, with their offsets."""
        return [(offset, *record) for offset, record in enumerate(self.records)][self.start :]


class Harness:
    """A coordinator of one partition."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.log = Log()
        self.topics = {TOPIC_ID}
        self.updates_per_snapshot = updates_per_snapshot
        self.coordinator = self.restarted()

    def restarted(self) -> ShareCoordinator:
        """Return a coordinator that loads what is in the log."""
        coordinator = ShareCoordinator(
            1,
            1,
            self.updates_per_snapshot,
            actions=ActionQueue(),
            store=self.log,
            partition_exists=lambda topic_id, _partition: topic_id in self.topics,
            now_ms=lambda: 1_000,
        )
        coordinator.load(0, self.log.loaded())
        self.coordinator = coordinator
        return coordinator

    def write(
        self, *batches: tuple[int, int, int, int], start: int = -1, leader: int = 0, epoch: int = 0
    ) -> list[StateResult]:
        """Write; the list has the answer once there is one."""
        answers: list[StateResult] = []
        update = ShareState(
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            batches=tuple(StateBatch(*batch) for batch in batches),
        )
        self.coordinator.write(KEY, update, answers.append)
        return answers

    def kinds(self) -> list[int]:
        """Return the kinds of the records in the log."""
        found = [decode_key(key) for key, _ in self.log.records]
        return [each[0] for each in found if each is not None]


def answer(ask: Callable[[Callable[[StateResult], object]], None]) -> StateResult:
    """Return the only answer to a request."""
    answers: list[StateResult] = []
    ask(answers.append)
    (only,) = answers
    return only


def test_state_is_the_same_after_a_restart() -> None:
    """The snapshot and the updates since make the state."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 5, lambda _result: None)
    harness.write((5, 9, 0, 1))
    harness.write((6, 7, 2, 1), start=6)
    before = harness.coordinator.state_of(KEY)
    assert before is not None
    assert [tuple(batch) for batch in before.batches] == [(6, 7, 2, 1), (8, 9, 0, 1)]
    assert harness.kinds() == [SNAPSHOT, UPDATE, UPDATE]
    assert harness.restarted().state_of(KEY) == before


def test_snapshot_after_some_updates() -> None:
    """A coordinator that loads the log reads no more than these."""
    harness = Harness(updates_per_snapshot=2)
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    for number in range(4):
        harness.write((number, number, 2, 1))
    assert harness.kinds() == [SNAPSHOT, UPDATE, UPDATE, SNAPSHOT, UPDATE]
    state = harness.coordinator.state_of(KEY)
    assert state is not None
    assert state.snapshot_epoch == 1
    assert harness.restarted().state_of(KEY) == state
    harness.write((9, 9, 2, 1))
    harness.write((10, 10, 2, 1))
    assert harness.kinds()[5:] == [UPDATE, SNAPSHOT]


def test_epochs_fence_after_a_restart() -> None:
    """A leader of an earlier epoch is refused, by a coordinator that has loaded the log too."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 3, 0, lambda _result: None)
    read = answer(lambda reply: harness.coordinator.read(KEY, 5, reply))
    assert (read.error, read.state.state_epoch) == (ErrorCode.NONE, 3)
    harness.restarted()
    assert harness.write(leader=4, epoch=3)[0].error is ErrorCode.FENCED_LEADER_EPOCH
    assert harness.write(leader=5, epoch=2)[0].error is ErrorCode.FENCED_STATE_EPOCH
    assert harness.write(leader=5, epoch=3)[0].error is ErrorCode.NONE


def test_answer_comes_when_the_record_is_replicated() -> None:
    """The next write builds on one that is not replicated yet."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    harness.log.is_held = True
    first, second = harness.write((0, 0, 2, 1)), harness.write((1, 1, 2, 1))
    assert (first, second) == ([], [])
    for done in harness.log.held:
        done(ErrorCode.NONE)
    assert [first[0].error, second[0].error] == [ErrorCode.NONE] * 2
    state = harness.coordinator.state_of(KEY)
    assert state is not None
    assert [tuple(batch) for batch in state.batches] == [(0, 1, 2, 1)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_write_that_is_not_appended_changes_nothing(error: ErrorCode, told: ErrorCode) -> None:
    """The leader gets the error that it can try again after."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    before = harness.coordinator.state_of(KEY)
    harness.log.error = error
    assert harness.write((0, 0, 2, 1))[0].error is told
    assert harness.coordinator.state_of(KEY) == before


def test_unloaded_partition_answers_not_coordinator() -> None:
    """Also for what was appended before."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    harness.log.is_held = True
    waiting = harness.write((0, 0, 2, 1))
    harness.coordinator.unload(0)
    harness.log.held[0](ErrorCode.NONE)
    assert waiting[0].error is ErrorCode.NOT_COORDINATOR
    assert harness.write((0, 0, 2, 1))[0].error is ErrorCode.NOT_COORDINATOR


def test_deleted_topic_is_forgotten() -> None:
    """A tombstone removes its states."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    harness.topics.clear()
    harness.coordinator.forget_topic(TOPIC_ID)
    assert harness.log.records[-1][1] is None
    assert harness.restarted().state_of(KEY) is None


def test_damaged_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    """The others are loaded."""
    harness = Harness()
    harness.coordinator.initialize(KEY, 0, 5, lambda _result: None)
    good = harness.log.records[0]
    bad: list[Append] = [
        (b"\0", b""),
        (good[0], b"\0\0\1"),
        (b"\0\0\0\5x", None),
        (encode_key(KEY, UPDATE), b"\0\7"),
    ]
    harness.log.records = [bad[0], good, *bad[1:], (b"\0\7", b"")]
    with caplog.at_level(logging.ERROR):
        harness.restarted()
    assert caplog.text.count("skipped a record") == 4
    state = harness.coordinator.state_of(KEY)
    assert state is not None
    assert state.start_offset == 5


def test_records_are_decoded_as_they_were_encoded() -> None:
    """Keys and values of both kinds."""
    state = ShareState(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        batches=(StateBatch(4, 5, 2, 1), StateBatch(8, 8, 4, 5)),
        create_ms=6,
        write_ms=7,
    )
    assert decode_value(encode_snapshot(state), SNAPSHOT) == state
    update = decode_value(encode_update(state), UPDATE)
    assert (update.snapshot_epoch, update.leader_epoch, update.start_offset) == (1, 3, 4)
    assert update.batches == state.batches
    for kind in (SNAPSHOT, UPDATE):
        assert decode_key(encode_key(KEY, kind)) == (kind, KEY)
    with pytest.raises(ShareRecordError):
        decode_value(encode_snapshot(state)[:-3], SNAPSHOT)


def test_records_before_the_last_snapshots_are_pruned() -> None:
    harness = Harness(updates_per_snapshot=1)
    other = KEY._replace(partition=1)
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    harness.coordinator.initialize(other, 0, 0, lambda _result: None)
    for number in range(2):
        harness.write((number, number, 2, 1))
    assert harness.kinds() == [SNAPSHOT, SNAPSHOT, UPDATE, SNAPSHOT]
    harness.coordinator.prune()
    assert harness.log.start == 1
    states = [harness.coordinator.state_of(key) for key in (KEY, other)]
    restarted = harness.restarted()
    assert [restarted.state_of(key) for key in (KEY, other)] == states
    restarted.delete(other, lambda _result: None)
    restarted.prune()
    assert harness.log.start == 3
    restarted.delete(KEY, lambda _result: None)
    restarted.prune()
    assert harness.log.start == 5
    assert harness.restarted().state_of(KEY) is None


def test_snapshot_that_may_not_be_replicated_keeps_all_records() -> None:
    harness = Harness()
    other = KEY._replace(partition=1)
    harness.coordinator.initialize(KEY, 0, 0, lambda _result: None)
    harness.coordinator.initialize(KEY, 1, 0, lambda _result: None)
    harness.log.is_held = True
    harness.coordinator.initialize(other, 0, 0, lambda _result: None)
    harness.coordinator.initialize(KEY, 2, 0, lambda _result: None)
    harness.coordinator.prune()
    assert harness.log.start == 0
    harness.log.held[0](ErrorCode.NONE)
    harness.coordinator.prune()
    assert harness.log.start == 1
    harness.log.held[1](ErrorCode.REQUEST_TIMED_OUT)
    harness.coordinator.prune()
    assert harness.log.start == 1

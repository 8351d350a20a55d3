"""The columns in which a replay's ends are recorded, on either build."""

from __future__ import annotations

from request_purgatory.replay.end_recorder import EndRecorder


def test_columns_have_the_ends_since_the_last_allocation() -> None:
    ends = EndRecorder(now_us=5)
    ends.allocate(3)
    ends.record(7, 1, 4, expired=True)
    ends.now_us = 6
    ends.record(8, 2, 9, expired=False)
    assert {name: column.tolist() for name, column in ends.ended().items()} == {
        "row": [7, 8],
        "arrived_us": [1, 2],
        "deadline_us": [4, 9],
        "ended_us": [5, 6],
        "expired": [1, 0],
    }
    ends.allocate(1)
    assert all(column.tolist() == [] for column in ends.ended().values())

"""The states of share partitions at their coordinators."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case_harness import CaseHarness
from tests.broker.sharing.parity.member import (
    call,
    initialize,
    prepared,
    read,
    read_summary,
    share_coordinator,
    write,
)

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def share_state_without_initialization(harness: CaseHarness) -> Any:
    topic, group = harness.topic(), harness.name("group")
    coordinator, topic_id = share_coordinator(harness, group, topic), harness.topic_id(topic)
    return {
        "read": read(coordinator, group, topic_id),
        "write": write(coordinator, group, topic_id, (0, 1, ACKNOWLEDGED, 1)),
        "summary": read_summary(coordinator, group, topic_id),
        "delete": call(
            coordinator,
            "DeleteShareGroupState",
            group_id=group,
            topics=[{"topic_id": topic_id, "partitions": [{"partition": 0}]}],
        ),
    }


def share_state_epochs(harness: CaseHarness) -> Any:
    topic, group = prepared(harness)
    coordinator, topic_id = share_coordinator(harness, group, topic), harness.topic_id(topic)
    seen: dict[str, Any] = {
        "read in leader epoch 3": read(coordinator, group, topic_id, leader_epoch=3),
        "read in leader epoch 2": read(coordinator, group, topic_id, leader_epoch=2),
        "read in any leader epoch": read(coordinator, group, topic_id, leader_epoch=-1),
        "write in leader epoch 2": write(
            coordinator, group, topic_id, (0, 1, AVAILABLE, 1), leader_epoch=2
        ),
        "write in leader epoch 3": write(
            coordinator, group, topic_id, (0, 1, AVAILABLE, 1), leader_epoch=3
        ),
        "initialize again": initialize(coordinator, group, topic_id, epoch=5, start=7),
        "summary": read_summary(coordinator, group, topic_id),
        "initialize an older one": initialize(coordinator, group, topic_id, epoch=4),
        "write in an older epoch": write(
            coordinator, group, topic_id, (7, 8, AVAILABLE, 1), epoch=4, leader_epoch=3
        ),
        "write in leader epoch 1": write(
            coordinator, group, topic_id, (7, 8, AVAILABLE, 1), epoch=5, leader_epoch=1
        ),
        "write in a later epoch": write(
            coordinator, group, topic_id, (7, 8, AVAILABLE, 1), epoch=6, leader_epoch=4
        ),
    }
    return seen | {"state": read(coordinator, group, topic_id, leader_epoch=4)}


def share_state_batches(harness: CaseHarness) -> Any:
    topic, group = prepared(harness)
    coordinator, topic_id = share_coordinator(harness, group, topic), harness.topic_id(topic)
    seen = []
    for start, batches in (
        (-1, [(0, 9, AVAILABLE, 1)]),
        (-1, [(3, 4, ACKNOWLEDGED, 1), (5, 6, ACKNOWLEDGED, 1)]),
        (-1, [(4, 7, AVAILABLE, 2)]),
        (-1, [(0, 1, ARCHIVED, 5), (20, 21, AVAILABLE, 1)]),
        (5, []),
        (-1, [(5, 30, AVAILABLE, 1)]),
    ):
        assert not write(coordinator, group, topic_id, *batches, start=start).error_code
        seen.append(read(coordinator, group, topic_id))
    return seen


def share_state_deletion(harness: CaseHarness) -> Any:
    topic, group = prepared(harness)
    coordinator, topic_id = share_coordinator(harness, group, topic), harness.topic_id(topic)
    deleted = call(
        coordinator,
        "DeleteShareGroupState",
        group_id=group,
        topics=[{"topic_id": topic_id, "partitions": [{"partition": 0}]}],
    )
    return {
        "deleted": deleted,
        "summary": read_summary(coordinator, group, topic_id),
        "read": read(coordinator, group, topic_id),
    }


CASES = (
    share_state_without_initialization,
    share_state_epochs,
    share_state_batches,
    share_state_deletion,
)

"""What Kafka 4.2 adds to share groups: renewed locks (KIP-1222) and exact numbers (KIP-1206)."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.sharing.parity.member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    prepared,
    ranges,
    read,
    share_coordinator,
)

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
#: What a fetch that renews must not ask for.
NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


def _member(harness: CaseHarness, records: int) -> ShareMember:
    return ShareMember(harness, *prepared(harness, records), version=2)


def share_renewed_by_acknowledgement(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 4)
    member = ShareMember(harness, topic, group, version=2)
    other = ShareMember(harness, topic, group, version=2)
    acquired = member.acquire()
    seen = {
        "acquired": acquired,
        "renewed": member.acknowledge((0, 1, [RENEW]), is_renew_ack=True),
        "renewed again": member.acknowledge((0, 0, [RENEW]), is_renew_ack=True),
        "other member": ranges(other.fetch(max_wait_ms=0)),
        "not the owner": other.acknowledge((0, 0, [RENEW]), is_renew_ack=True),
        "mixed": member.acknowledge((0, 3, [ACCEPT, RENEW, RELEASE, RENEW]), is_renew_ack=True),
        "accepted before": member.acknowledge((0, 0, [RENEW]), is_renew_ack=True),
        "released before": member.acknowledge((2, 2, [RENEW]), is_renew_ack=True),
        "two batches": member.acknowledge((1, 1, [RENEW]), (3, 3, [REJECT]), is_renew_ack=True),
    }
    coordinator = share_coordinator(harness, group, topic)
    return seen | {
        "state": read(coordinator, group, harness.topic_id(topic)),
        "released": ranges(other.fetch()),
        "accepted": member.acknowledge((1, 1, [ACCEPT])),
    }


def share_renewed_by_fetch(harness: CaseHarness) -> Any:
    topic, group = prepared(harness, 2)
    member = ShareMember(harness, topic, group, version=2)
    member.acquire()
    asking: dict[str, dict[str, int]] = {
        "a wait": {"max_wait_ms": 1},
        "bytes": {"min_bytes": 1},
        "at most bytes": {"max_bytes": 1},
        "records": {"max_records": 1},
    }
    # These do not count: the epoch stays.
    seen = {
        name: member.fetch(
            (0, 0, [RENEW]), epoch=member.epoch, is_renew_ack=True, **(NOTHING | more)
        )
        for name, more in asking.items()
    }
    harness.produce(member.client, topic, batch(b"next"))
    return seen | {
        "renewed": member.fetch((0, 0, [RENEW]), is_renew_ack=True, **NOTHING),
        "mixed": member.fetch((0, 1, [ACCEPT, RENEW]), is_renew_ack=True, **NOTHING),
        "nothing": member.fetch(is_renew_ack=True, **NOTHING),
        "no renewal": member.fetch((1, 1, [ACCEPT]), is_renew_ack=True, **NOTHING),
        "next": ranges(member.fetch()),
    }


def share_renewal_must_be_announced(harness: CaseHarness) -> Any:
    member = _member(harness, 2)
    member.acquire()
    seen: dict[str, Any] = {
        "acknowledge": member.acknowledge((0, 0, [RENEW])),
        "fetch": member.fetch((0, 0, [RENEW]), max_wait_ms=0),
        "unknown type": member.acknowledge((0, 0, [5]), is_renew_ack=True),
        "acknowledge without": member.acknowledge((0, 0, [ACCEPT]), is_renew_ack=True),
    }
    member.version = 1
    return seen | {
        "acknowledge, version 1": member.acknowledge((1, 1, [RENEW])),
        "fetch, version 1": member.fetch((1, 1, [RENEW]), max_wait_ms=0),
        "accepted": member.acknowledge((1, 1, [ACCEPT])),
    }


def share_renewal_of_session_ends(harness: CaseHarness) -> Any:
    member = _member(harness, 1)
    asked: dict[str, Any] = {"is_renew_ack": True}
    seen: dict[str, Any] = {
        "no session": member.acknowledge((0, 0, [RENEW]), epoch=1, **asked),
        "first fetch": member.fetch(epoch=0, **asked, **NOTHING),
        "first fetch, renewal": member.fetch((0, 0, [RENEW]), epoch=0, **asked, **NOTHING),
    }
    member.acquire()
    seen["final fetch"] = member.fetch((0, 0, [RENEW]), epoch=-1, **asked, **NOTHING)
    member.epoch = 0
    member.acquire()
    seen["final acknowledgement"] = member.acknowledge((0, 0, [RENEW]), epoch=-1, **asked)
    member.epoch = 0
    return seen | {"released": [offset for offset, _ in member.acquire()]}


def share_exact_number_of_records(harness: CaseHarness) -> Any:
    topic, group = prepared(harness)
    client = harness.leader(topic)
    for size in (10, 3, 1, 1, 1):
        harness.produce(client, topic, batch(*[b"value"] * size))
    member = ShareMember(harness, topic, group, version=2)
    exact: dict[str, Any] = {"share_acquire_mode": RECORD_LIMIT}
    seen = {
        "four": member.acquire(max_records=4, batch_size=4, **exact),
        "of two batches": ranges(member.fetch(max_records=8, batch_size=8, **exact)),
        "not exact": ranges(member.fetch(max_records=1, batch_size=1)),
    }
    answer = member.fetch(max_records=100, batch_size=2, **exact)
    member.acknowledge((0, 5, [RELEASE]))
    return seen | {
        "the rest": ranges(answer),
        "in ranges": [
            [each.first_offset, each.last_offset]
            for each in answer.responses[0].partitions[0].acquired_records
        ],
        "released": ranges(member.fetch(max_records=2, batch_size=2, **exact)),
        "the others": ranges(member.fetch(max_records=100, batch_size=100, **exact)),
        "unknown mode": member.fetch(
            (15, 15, [ACCEPT]), epoch=member.epoch, max_wait_ms=0, share_acquire_mode=7
        ),
        "after it": member.fetch(max_wait_ms=0),
    }


NEXT_CASES = (
    share_renewed_by_acknowledgement,
    share_renewed_by_fetch,
    share_renewal_must_be_announced,
    share_renewal_of_session_ends,
    share_exact_number_of_records,
)

"""Fetch sessions."""

from __future__ import annotations

import uuid
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields

#: Longer than any response that does not wait, even on a busy machine.
_WAIT_MS = 1_000
#: Longer than it takes until the event that completes the fetch.
_LONG_MS = 10_000


def _partitions(answer: Any) -> Any:
    return {
        "error_code": answer.error_code,
        "session_id": answer.session_id,
        "partitions": sorted(
            [each.partition_index, ErrorCode(each.error_code).name, len(each.records or b"") > 0]
            for topic in answer.responses
            for each in topic.partitions
        ),
    }


@case
def fetch_session_is_incremental(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0], [0], [0]])
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1"))
    first = client.call("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, session_epoch=0))
    session = first.session_id

    def further(epoch: int, offsets: dict[int, int], **fields: Any) -> Any:
        return _partitions(
            client.call(
                "Fetch",
                12,
                **fetch_fields(topic, offsets, session_id=session, session_epoch=epoch, **fields),
            )
        )

    seen = {"full": _partitions(first), "nothing new": further(1, {0: 1})}
    harness.produce(harness.connect_like(client), topic, batch(b"2"), batch(b"3"))
    seen["new in two"] = further(2, {})
    seen["moved on in one"] = further(3, {0: 2})
    seen["moved on in both"] = further(4, {1: 1})
    seen["moved back"] = further(5, {0: 0})
    seen["again"] = further(6, {})
    seen["without the first"] = further(7, {}, forgotten=[0])
    seen["the first once more"] = further(8, {0: 0})
    seen["out of range"] = further(9, {2: 9})
    seen["out of range again"] = further(10, {})
    seen["partition that is not"] = further(11, {7: 0})
    return seen


@case
def fetch_session_waits_and_is_completed(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    session = client.call("Fetch", 12, **fetch_fields(topic, 1, session_epoch=0)).session_id
    common = {"session_id": session}
    waited = harness.timed(
        _WAIT_MS,
        client.call,
        "Fetch",
        12,
        **fetch_fields(topic, {}, session_epoch=1, max_wait_ms=_WAIT_MS, **common),
    )
    client.start(
        "Fetch", 12, **fetch_fields(topic, {}, session_epoch=2, max_wait_ms=_LONG_MS, **common)
    )
    harness.produce(harness.connect_like(client), topic, batch(b"new"))
    return {"waited": waited, "woken": harness.timed(_LONG_MS, client.read)}


@case
def fetch_session_errors(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)

    def fetch(session: int, epoch: int) -> Any:
        return _partitions(
            client.call("Fetch", 12, **fetch_fields(topic, session_id=session, session_epoch=epoch))
        )

    session = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    return {
        "unknown session": fetch(session + 1 if session < 1 << 30 else session - 1, 1),
        "epoch too new": fetch(session, 5),
        "right epoch": fetch(session, 1),
        "epoch again": fetch(session, 1),
        "no session, epoch 1": fetch(0, 1),
        "negative epoch": fetch(session, -2),
        "ended": fetch(session, -1),
        "after its end": fetch(session, 2),
        "a new one for an id that is not": fetch(12_345, 0),
        "no session": fetch(0, -1),
    }


@case
def fetch_session_is_reopened(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    first = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    second = client.call("Fetch", 12, **fetch_fields(topic, session_id=first, session_epoch=0))
    old = client.call("Fetch", 12, **fetch_fields(topic, session_id=first, session_epoch=1))
    return {
        "another": second.session_id != first,
        "answer": _partitions(second),
        "old": _partitions(old),
    }


@case
def fetch_session_from_another_connection(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    session = client.call("Fetch", 12, **fetch_fields(topic, session_epoch=0)).session_id
    return _partitions(
        harness.connect_like(client).call(
            "Fetch", 12, **fetch_fields(topic, session_id=session, session_epoch=1)
        )
    )


@case
def fetch_session_with_topic_ids(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    topic_id = harness.topic_id(topic)
    session = client.call(
        "Fetch", 13, **fetch_fields(topic, topic_id=topic_id, session_epoch=0)
    ).session_id

    def further(epoch: int, offsets: Any, version: int = 13, **fields: Any) -> Any:
        return _partitions(
            client.call(
                "Fetch",
                version,
                **fetch_fields(topic, offsets, session_id=session, session_epoch=epoch, **fields),
            )
        )

    return {
        "next": further(1, {0: 1}, topic_id=topic_id),
        "unknown id added": further(2, {0: 0}, topic_id=uuid.UUID(int=5)),
        "by name": further(3, {0: 0}, version=12),
    }

"""The limits of the remembered requests."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.messages import Header
from purgatory_broker.api.registry import find_api
from purgatory_broker.server.request_log import (
    MAX_BYTES,
    MAX_FRAME_BYTES,
    MAX_REQUESTS,
    RequestLog,
)

HEADER = Header(find_api("Produce"), 9, 0, "client", 20, is_supported=True)


@pytest.mark.parametrize("size", [10, MAX_FRAME_BYTES // 3, MAX_FRAME_BYTES, MAX_FRAME_BYTES + 1])
def test_memory_is_bounded_whenever_the_responses_come(size: int) -> None:
    names: list[str] = []
    log = RequestLog(lambda: 0, names.append)
    frame = bytes(size)
    total = 10_100 if size == 10 else 60
    waiting = [log.received(0, HEADER, frame) for _ in range(total)]
    for each in waiting:
        log.answered(each, frame)
    kept = sum(each.size_bytes for each in log.requests)
    assert kept == log._size_bytes <= MAX_BYTES
    assert len(log.requests) <= MAX_REQUESTS
    assert log.counts == {"Produce": total}
    assert len(names) == total
    if size > MAX_FRAME_BYTES:
        assert (kept, len(log.requests)) == (0, total)
    else:
        assert list(log.requests) == waiting[-len(log.requests) :]
        assert all(each.size_bytes == 0 or each.frame for each in log.requests)

"""The backlog of a purge: what it forgets, and when it looks."""

from __future__ import annotations

import pytest

from request_purgatory import DelayedOperationPurgatory
from tests.conftest import MakePurgatory
from tests.support.requests import Request

#: From this length on the backlog looks for what checks have removed.
FIRST_LOOK = 2000
#: How many it looks at with each further operation.
LOOKS = 100


@pytest.fixture
def purgatory(make_wheel_purgatory: MakePurgatory) -> DelayedOperationPurgatory:
    return make_wheel_purgatory(purge_interval=1_000_000)


def end(purgatory: DelayedOperationPurgatory, count: int, *keys: str) -> None:
    """Have operations end that stay watched."""
    for _ in range(count):
        request = Request()
        purgatory.try_complete_else_watch(request, keys)
        request.force_complete()


def test_backlog_is_looked_through_when_it_is_longer_than_two_thousand(
    purgatory: DelayedOperationPurgatory,
) -> None:
    end(purgatory, FIRST_LOOK, "gone")
    purgatory.cancel_for_key("gone")
    assert purgatory._backlog.chain.length == FIRST_LOOK
    end(purgatory, 1, "stays")
    assert purgatory._backlog.chain.length == FIRST_LOOK + 1 - LOOKS
    end(purgatory, FIRST_LOOK // LOOKS, "stays")
    assert purgatory._backlog.chain.length == 1 + FIRST_LOOK // LOOKS


def test_look_ends_with_the_last_one_that_was_there_when_it_began(
    purgatory: DelayedOperationPurgatory,
) -> None:
    end(purgatory, FIRST_LOOK, "gone")
    purgatory.cancel_for_key("gone")
    end(purgatory, 1, "last")
    purgatory.cancel_for_key("last")
    end(purgatory, FIRST_LOOK // LOOKS - 1, "stays")
    assert purgatory._backlog.chain.length == FIRST_LOOK // LOOKS
    end(purgatory, 1, "stays")
    assert purgatory._backlog.chain.length == FIRST_LOOK // LOOKS


def test_next_look_begins_when_the_backlog_has_doubled(
    purgatory: DelayedOperationPurgatory,
) -> None:
    # The last look of the first time is at the 2,021st.
    seen = FIRST_LOOK + 1 + FIRST_LOOK // LOOKS
    end(purgatory, seen, "stays")
    end(purgatory, seen, "gone")
    purgatory.cancel_for_key("gone")
    assert purgatory._backlog.chain.length == 2 * seen
    end(purgatory, 2 * seen // LOOKS + 1, "last")
    assert purgatory._backlog.chain.length == seen + 2 * seen // LOOKS + 1


def test_no_look_begins_before_the_backlog_has_doubled(
    purgatory: DelayedOperationPurgatory,
) -> None:
    seen = FIRST_LOOK + 1 + FIRST_LOOK // LOOKS
    end(purgatory, seen, "stays")
    end(purgatory, seen - LOOKS, "gone")
    purgatory.cancel_for_key("gone")
    end(purgatory, LOOKS, "last")
    assert purgatory._backlog.chain.length == 2 * seen


def test_look_that_leaves_little_keeps_the_first_length(
    purgatory: DelayedOperationPurgatory,
) -> None:
    for _ in range(2):
        end(purgatory, FIRST_LOOK - purgatory._backlog.chain.length, "gone")
        purgatory.cancel_for_key("gone")
        end(purgatory, FIRST_LOOK // LOOKS + 1, "stays")
    assert purgatory._backlog.chain.length == 2 * (FIRST_LOOK // LOOKS + 1)


def test_purge_between_two_looks_leaves_nothing(purgatory: DelayedOperationPurgatory) -> None:
    end(purgatory, FIRST_LOOK + 1, "stays")
    assert purgatory.purge() == FIRST_LOOK + 1
    end(purgatory, 5, "gone")
    purgatory.cancel_for_key("gone")
    end(purgatory, 1, "last")
    assert purgatory._backlog.chain.length == 6  # No look goes on.
    assert purgatory.purge() == 1
    assert (purgatory.watched, purgatory._backlog.chain.length) == (0, 0)

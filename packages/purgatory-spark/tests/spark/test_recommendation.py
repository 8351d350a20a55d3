"""Which timeout is recommended, by tables of outcomes that are counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._analysis.cut_off import Censoring, censoring_of
from purgatory_spark._analysis.recommendation import GOALS, recommend
from tests.spark.test_answer_times import times_of


def rows_of(requests: int, expired: dict[int, int]) -> list[dict[str, Any]]:
    """Return rows of `what_if`, of the numbers of expired requests by timeout."""
    return [
        {
            "timeout_ms": timeout_ms,
            "requests": requests,
            "expired": expired[timeout_ms],
            "expired_share": expired[timeout_ms] / requests,
            "peak_pending": timeout_ms,
            "peak_bytes": timeout_ms * 1024.0,
        }
        for timeout_ms in sorted(expired)
    ]


#: Of 10,000 requests, 100 are never answered. 9,900 * 99.9 % is 9,890.1.
CURVE = {50: 8000, 100: 4000, 200: 1500, 500: 300, 1000: 110, 1200: 109, 2000: 101, 5000: 100}


def test_shortest_timeout_that_keeps_the_answers() -> None:
    found = recommend(rows_of(10_000, CURVE), [200], late_answers=1400)
    assert found.timeout_ms == 1200
    assert found.reason == (
        "Choose 1.2 s: it answers 99.90 % of the 9,900 requests that would be answered within 5 s."
    )
    assert found.details == (
        "Then 1.09 % of all requests expire; with 200 ms, which is in use, 15.0 % do.",
        # 1,500 / 300 in 1.32 halvings is 3.4 each; 4,000 / 1,500 is 2.7; 8,000 / 4,000 is 2.
        # 300 / 110 in one halving is 2.7. From 1.2 s to 1 s it is 1.04.
        "From 1 s down to 50 ms, each halving at least doubles the expired share: 1.10 % become "
        "80.0 %.",
        "At the peak 1,200 requests are then pending on the busiest host, in 1.2 MiB.",
        "1.00 % of all requests are not answered within 5 s.",
    )


def test_steep_range_ends_where_the_share_grows_more_slowly() -> None:
    curve = CURVE | {100: 1500, 200: 800, 500: 200}
    (_, steep, *_) = recommend(rows_of(10_000, curve), [], late_answers=1).details
    assert steep.startswith("From 500 ms down to 200 ms,")


def test_trace_without_late_answers_says_nothing_of_longer_timeouts() -> None:
    curve = {timeout: max(expired, 300) for timeout, expired in CURVE.items()}
    for late_answers in (0, None):
        found = recommend(rows_of(10_000, curve), [500], late_answers)
        assert found.timeout_ms is None
        assert found.reason == (
            "Choose no timeout below 500 ms: 200 ms loses 12.4 % of the 9,700 requests that "
            "500 ms answers."
        )
        assert found.details[-1] == (
            "What a timeout above 500 ms would answer is unknown: the trace has no answer that "
            "came after a timeout."
        )
    # With some late answers it does: 500 ms answers all that are answered.
    assert recommend(rows_of(10_000, curve), [500], late_answers=1).timeout_ms == 500


def test_shorter_timeout_is_recommended_without_late_answers() -> None:
    found = recommend(rows_of(10_000, CURVE), [5000], late_answers=0)
    assert found.timeout_ms == 1200
    assert found.details[-1].startswith("What a timeout above 5 s would answer is unknown")


def test_curve_that_has_not_levelled_off_gives_no_timeout() -> None:
    curve = {timeout: expired for timeout, expired in CURVE.items() if timeout <= 500}
    found = recommend(rows_of(10_000, curve), [100], late_answers=7000)
    assert found.timeout_ms is None
    assert found.reason == (
        "No timeout is recommended: 500 ms, the longest one tried, still answers 12.4 % more than "
        "200 ms. Try longer ones."
    )


def test_longest_timeout_is_recommended_where_it_answers_all() -> None:
    found = recommend(rows_of(10_000, {100: 4000, 500: 0}), [500], late_answers=0)
    assert found.timeout_ms == 500
    assert found.reason == (
        "Choose 500 ms: every shorter timeout tried loses more than 0.10 % of the 10,000 requests "
        "that it answers."
    )
    assert found.details[0] == "It is in use already; 0.0 % of all requests expire."


@pytest.mark.parametrize(("answered", "expected"), [(299, None), (300, 20), (2999, 20), (3000, 30)])
def test_few_answers_support_a_smaller_share_or_none(answered: int, expected: int | None) -> None:
    rows = rows_of(answered, {10: answered // 2, 20: 3 + (answered == 3000), 30: 1, 40: 0})
    found = recommend(rows, [40], late_answers=0)
    assert found.timeout_ms == expected
    if expected is None:
        assert found.reason == (
            "No timeout is recommended: 40 ms answers 299 requests, and at least 300 are needed "
            "to compare shares."
        )


def test_one_timeout_is_no_choice() -> None:
    assert recommend(rows_of(10_000, {500: 0}), [500]).timeout_ms is None
    assert "two timeouts" in recommend([], []).reason
    shorter = recommend(rows_of(10_000, {500: 9, 600: 9}), [500], late_answers=0)
    assert "try at least a shorter timeout" in shorter.reason


def censored(
    answered: dict[int, int], given_up: dict[int, int], **parameters: Any
) -> tuple[list[dict[str, Any]], Censoring | None]:
    """Return rows of `what_if` for those times, and what is known of requests given up."""
    times = times_of(dict(answered), dict(given_up))
    requests = times.total
    expired = {
        timeout: requests - sum(count for ms, count in answered.items() if ms <= timeout)
        for timeout in {*answered, *given_up, 5000}
    }
    return rows_of(requests, expired), censoring_of(times, [2000], parameters)


#: 9,900 answers, the last ones within a second.
ANSWERS = {10: 5000, 100: 4000, 400: 890, 1000: 10}


def test_answers_at_the_timeout_in_use_count_as_none() -> None:
    rows, censoring = censored(ANSWERS | {2000: 100}, {})
    found = recommend(rows, [2000], 0, censoring)
    assert (found.timeout_ms, found.reason) == (
        1000,
        "Choose 1 s: it answers all of the 9,900 requests that would be answered within 2 s.",
    )
    assert found.details[0] == (
        "100 requests (1.00 %) took 2 s, as if they were given up then: they count as not "
        "answered. If a column has their status, import it with --status COLUMN and --unanswered "
        "VALUE,VALUE."
    )
    assert found.details[1].startswith("Then 1.00 % (95 % interval: 0.82 % to 1.21 %) of all")
    assert found.details[-1].startswith("What a timeout above 2 s would answer is unknown")


def test_cut_off_that_hides_the_answers_gives_no_timeout() -> None:
    rows, censoring = censored({10: 5000, 400: 900, 1000: 60, 2000: 100}, {})
    found = recommend([row for row in rows if row["timeout_ms"] != 1000], [2000], 0, censoring)
    assert found.timeout_ms is None
    assert found.reason.startswith("Choose no timeout below 2 s: 400 ms loses 1.01 % of the 5,960")


def test_requests_that_clients_gave_up_are_estimated() -> None:
    # Half of the clients leave at 50 ms. Of the others all are answered within a second.
    rows, censoring = censored(
        {10: 4000, 100: 2000, 1000: 1000}, {50: 3000}, unanswered=["499"], timeout_ms=2000
    )
    found = recommend(rows, [2000], 0, censoring)
    assert found.timeout_ms == 1000
    assert "answers all of the 10,000 requests" in found.reason
    assert found.details[0].startswith("3,000 requests (30.0 %) were given up without an answer")
    assert not any("unknown" in sentence for sentence in found.sentences)
    # Of those that were watched longer than 50 ms, two thirds end at 100 ms: a fifth is left.
    shorter = recommend([row for row in rows if row["timeout_ms"] <= 100], [2000], 0, censoring)
    assert shorter.timeout_ms is None
    assert "100 ms loses" not in shorter.reason
    assert "50 ms loses 50.0 % of the 8,000 requests that 100 ms answers" in shorter.reason
    assert recommend([], [], 0, censoring).timeout_ms is None


waits = st.lists(st.one_of(st.none(), st.integers(0, 1000)), min_size=1, max_size=60)


@given(
    waits,
    st.lists(st.integers(0, 1200), min_size=1, max_size=8, unique=True),
    st.lists(st.integers(0, 1200), max_size=2),
    st.one_of(st.none(), st.integers(0, 3)),
    st.sampled_from([1, 10, 100]),
)
def test_recommended_timeout_keeps_its_promise(
    waits: list[int | None],
    timeouts: list[int],
    in_use: list[int],
    late_answers: int | None,
    times: int,
) -> None:
    expired = {
        timeout: times * sum(wait is None or wait > timeout for wait in waits)
        for timeout in timeouts
    }
    requests = times * len(waits)
    found = recommend(rows_of(requests, expired), sorted(set(in_use)), late_answers)
    assert all(sentence.endswith(".") for sentence in found.sentences)
    if found.timeout_ms is None:
        return
    assert found.timeout_ms in timeouts
    answered = {timeout: requests - expired[timeout] for timeout in timeouts}
    most = max(answered.values())
    if "unknown" not in found.details[-1]:
        goal = next(goal for goal in GOALS if most * (1 - goal) >= 3 - 1e-6)
        assert answered[found.timeout_ms] >= goal * most
        shorter = [timeout for timeout in timeouts if timeout < found.timeout_ms]
        assert all(answered[timeout] < goal * most for timeout in shorter)
    else:
        assert found.timeout_ms <= min(in_use)


@given(waits, st.lists(st.integers(1, 1200), min_size=3, max_size=8, unique=True))
def test_slower_answers_never_give_a_shorter_timeout(
    waits: list[int | None], timeouts: list[int]
) -> None:
    longest = max(timeouts)
    served = [wait if wait is not None else 0 for wait in waits]
    slower = [min(2 * wait + 1, longest) for wait in served]
    found = []
    for service in (served, slower):
        expired = {
            timeout: 100 * sum(min(wait, longest) > timeout for wait in service)
            for timeout in timeouts
        }
        found.append(recommend(rows_of(100 * len(service), expired), [], None).timeout_ms)
    if None not in found:
        fast, slow = (timeout or 0 for timeout in found)
        assert fast <= slow

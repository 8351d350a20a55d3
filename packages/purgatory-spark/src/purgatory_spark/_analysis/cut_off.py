"""Doubt whether answers are answers: many that took exactly as long as a timeout.

A gateway that gives a request up logs its own timeout as the duration. In a table without a status
such rows look like answers, and the timeout like one that answers everything.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from purgatory_spark._analysis.answer_times import AnswerTimes, Buckets
from purgatory_spark._analysis.wait_scale import BUCKETS_PER_DECADE, bucket_number
from purgatory_spark._rows.mapping import TableMapping

#: A log may write a timeout of 2 s as 2.000 to 2.023 s: buckets reach so far together.
_WIDTH = 5
#: Times that are at most a fifth shorter, which is about a hundred buckets.
_NEAR = round(BUCKETS_PER_DECADE * math.log10(1.25))
#: Fewer answers are no reason for doubt.
_LEAST = 10
#: Longer answers are at most this part of those that took the timeout, if it is not in use.
_ABOVE = 0.1


@dataclass(frozen=True)
class CutOff:
    """Answers that took about as long as a timeout, and may be none."""

    at_ms: int
    requests: int
    buckets: Buckets


@dataclass(frozen=True)
class Censoring:
    """Requests of which it is not known when they would have been answered.

    `cut_off` are those of them that look like answers; None if there are none.
    """

    times: AnswerTimes
    requests: int
    cut_off: CutOff | None


def censoring_of(
    times: AnswerTimes, in_use: Sequence[int], parameters: Mapping[str, Any]
) -> Censoring | None:
    """Return what is censored in a trace: requests with a status that says so, and doubtful ones.

    None if there is neither. Other requests without an answer were never answered.
    """
    cut_off = find_cut_off(times, in_use)
    given_up = int(times.given_up.sum()) if parameters.get("unanswered") else 0
    if cut_off is None:
        return Censoring(times, given_up, None) if given_up else None
    in_doubt = replace(times, in_doubt=cut_off.buckets)
    return Censoring(in_doubt, given_up + cut_off.requests, cut_off)


def timeouts_in_use(parameters: Mapping[str, Any], of_requests: Sequence[int]) -> list[int]:
    """Return the shortest and the longest timeout of a trace in ms.

    `parameters`: those of the trace. `of_requests`: the shortest and longest timeout of its
    requests, which are not those in use where requests expire when they were given up.
    """
    if parameters.get("unanswered") and "timeout_ms" not in parameters.get("columns", {}):
        timeout_ms = parameters.get("timeout_ms", TableMapping.timeout_ms)
        return [timeout_ms, timeout_ms]
    return list(of_requests)


def find_cut_off(times: AnswerTimes, in_use: Sequence[int]) -> CutOff | None:
    """Find answers at a timeout in use, or at the longest time, that stand out from shorter ones.

    They stand out if there are more of them than answers that took up to a fifth less, and more
    than at the next shorter time. So neither a smooth distribution does, nor times of few digits.
    """
    has_answers = times.answered > 0
    # There are thousands of buckets, and NumPy's searches of one number take long.
    number: list[int] = times.bucket[has_answers].tolist()
    answered: list[int] = times.answered[has_answers].tolist()
    so_far = [0, *accumulate(answered)]

    def count(first: int, end: int) -> int:
        return so_far[bisect_left(number, end)] - so_far[bisect_left(number, first)]

    def stands_out(first: int) -> bool:
        mass = count(first, first + _WIDTH)
        at = bisect_left(number, first)
        shorter = answered[at - 1] if at else 0
        return mass >= _LEAST and mass > max(shorter, count(first - _NEAR, first))

    def cut(at_ms: int, first: int) -> CutOff:
        return CutOff(at_ms, count(first, first + _WIDTH), (first, first + _WIDTH))

    for timeout_ms in sorted(set(in_use), reverse=True):
        first = bucket_number(timeout_ms)
        if timeout_ms and stands_out(first):
            return cut(timeout_ms, first)
    total = so_far[-1]
    for at in reversed(range(len(number))):
        above = total - so_far[at + 1]
        if above >= total * _ABOVE:
            break
        first = number[at]
        mass = count(first, first + _WIDTH)
        beyond = count(first + _WIDTH, number[-1] + 1)
        # Where most take the same time, that is how long they take.
        if stands_out(first) and beyond <= mass * _ABOVE and mass <= total / 2:
            return cut(_roundest_ms(first), first)
    return None


def _roundest_ms(bucket: int) -> int:
    """Return the whole number of milliseconds in a bucket that has the fewest digits."""
    low, high = (10 ** (number / BUCKETS_PER_DECADE) for number in (bucket, bucket + 1))
    digits: int = 10 ** int(math.log10(max(high, 1)))
    while digits > 1 and high // digits * digits < low:
        digits //= 10
    return max(1, int(high // digits) * digits)

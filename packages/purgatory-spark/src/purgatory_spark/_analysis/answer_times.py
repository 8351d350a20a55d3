"""When requests were answered or given up, counted by buckets, and what follows from that.

A request that was given up is *censored*: all that is known is that it took longer. Leaving such
requests out, or taking the time for an answer's, makes a service look faster than it is. Kaplan and
Meier's estimate uses them for as long as they were watched. Source: E. L. Kaplan and P. Meier,
"Nonparametric estimation from incomplete observations", JASA 53 (1958); the interval is that of
lifelines (exponential Greenwood).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from purgatory_spark._analysis.wait_scale import bucket_number
from purgatory_spark._spark.arrays import Floats, Ints

#: A first bucket, and the one after the last.
Buckets = tuple[int, int]
NO_BUCKETS: Buckets = (0, 0)

#: The quantile of the normal distribution for an interval of 95 %.
_Z = 1.959963984540054
#: Of n requests, none outlasted a timeout: with a confidence of 95 %, at most 3/n of all do.
_RULE_OF_THREE = 3.0


@dataclass(frozen=True)
class Unanswered:
    """The share of requests that a timeout leaves unanswered, with an interval of 95 %."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class AnswerTimes:
    """Counts of requests by buckets of time, ascending (`aggregates.count_answers`).

    What was answered in the buckets of `in_doubt` counts as given up in an estimate.
    """

    bucket: Ints
    up_to_ms: Floats
    answered: Ints
    given_up: Ints
    in_doubt: Buckets = NO_BUCKETS

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        rows = sorted(rows, key=lambda row: int(row["bucket"]))
        bucket, answered, given_up = (
            np.array([row[name] for row in rows], dtype=np.int64)
            for name in ("bucket", "answered", "given_up")
        )
        up_to_ms = np.array([row["up_to_ms"] for row in rows], dtype=float)
        return cls(bucket, up_to_ms, answered, given_up)

    @property
    def total(self) -> int:
        return int(self.answered.sum() + self.given_up.sum())

    def quantiles_ms(self, shares: Sequence[float]) -> list[float] | None:
        """Return quantiles of the answers' times, at most 0.24 % too long; None without answers."""
        rank = np.cumsum(self.answered)
        if not rank.size or not rank[-1]:
            return None
        # Without the last digits of a product: the rank of 0.9 of ten is nine.
        needed = [max(1, math.ceil(rank[-1] * share - 1e-9)) for share in shares]
        return [float(self.up_to_ms[np.searchsorted(rank, number)]) for number in needed]

    def unanswered_after(self, timeout_ms: int, answered: int) -> Unanswered | None:
        """Estimate which share of the requests a timeout leaves unanswered.

        `answered`: the number of requests that were answered by then. It says how many of the
        timeout's own bucket were. None if no request was watched so long.
        """
        first, end = self.in_doubt
        is_answer = (self.bucket < first) | (self.bucket >= end)
        ended = np.where(is_answer, self.answered, 0).astype(float)
        left = self.answered + self.given_up
        at_risk = (left.sum() - np.concatenate(([0], np.cumsum(left)[:-1]))).astype(float)
        before = int(np.searchsorted(self.bucket, bucket_number(timeout_ms)))
        if before == len(self.bucket):
            # If the last one was answered, none is left.
            return None if left[-1] > ended[-1] else _estimate(ended, at_risk)
        if self.bucket[before] > bucket_number(timeout_ms):
            return _estimate(ended[:before], at_risk[:before])
        in_last = max(0, answered - int(self.answered[:before].sum()))
        ended[before] = min(ended[before], in_last)
        return _estimate(ended[: before + 1], at_risk[: before + 1])


def _estimate(answered: Floats, at_risk: Floats) -> Unanswered:
    is_left = at_risk > answered
    share = float(np.prod(1 - answered / at_risk)) if len(answered) else 1.0
    if not is_left.all():
        return Unanswered(0.0, 0.0, min(1.0, _RULE_OF_THREE / float(at_risk[0])))
    variance = float(np.sum(answered / (at_risk * (at_risk - answered))))
    if share == 1.0:
        return Unanswered(1.0, 1.0, 1.0)
    log = math.log(share)
    low, high = (
        math.exp(-math.exp(math.log(-log) + sign * _Z * math.sqrt(variance) / log))
        for sign in (-1, 1)
    )
    return Unanswered(share, min(low, high), max(low, high))

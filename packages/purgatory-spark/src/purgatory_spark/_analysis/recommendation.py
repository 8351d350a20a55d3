"""Which timeout to choose, from the outcomes of a trace under several timeouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from purgatory_spark._analysis.answer_times import AnswerTimes, Unanswered
from purgatory_spark._analysis.cut_off import Censoring
from purgatory_spark._analysis.units import format_bytes, format_ms, format_share

if TYPE_CHECKING:
    from purgatory_spark._analysis.small_tables import WhatIfRow

#: The share of the answers that a recommended timeout keeps: the first one for which there are
#: enough answers. A timeout that loses none of n answers loses up to 3/n of all with a confidence
#: of 95 % (the rule of three), so fewer than 3 / (1 - share) answers can't tell.
GOALS = (0.999, 0.99)

#: Each halving of the timeout multiplies the expired share at least by this, where it is steep.
_STEEP = 2.0
#: With fewer expired requests, a factor between two shares is chance.
_MIN_EXPIRED = 10


@dataclass(frozen=True)
class Recommendation:
    """The timeout to choose for a trace, and why; None if the trace does not support one."""

    timeout_ms: int | None
    reason: str
    details: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        return (self.reason, *self.details)


def recommend(
    rows: Sequence[WhatIfRow],
    in_use: Sequence[int],
    late_answers: int | None = None,
    censoring: Censoring | None = None,
) -> Recommendation:
    """Recommend the shortest timeout that answers almost what the longest one would.

    A trace may not say what happens after its own timeouts: nothing in it was answered later,
    although requests expired. Then timeouts above the shortest one in use are not considered.

    Where requests were given up (`censoring`), the share that a timeout leaves unanswered is
    estimated, and timeouts that no request was watched for are not considered.

    There is no recommendation if fewer than two timeouts were tried, if there are too few answers,
    or if the longest timeout still answers clearly more than the others. If it is not known how
    many requests were satisfied after their own timeout, `rows` tell, where they have the longest
    one in use.
    """
    intervals: dict[int, Unanswered] = {}
    if censoring is not None:
        known, intervals = _estimated(rows, censoring.times)
        ends_at_timeout = len(known) < len(rows) or any(row["expired"] for row in known[-1:])
    else:
        ends_at_timeout = bool(in_use) and _ends_at_timeout(rows, max(in_use), late_answers)
        known = [row for row in rows if not ends_at_timeout or row["timeout_ms"] <= min(in_use)]
    doubt = () if censoring is None else _censored(censoring)
    if len(known) < 2:
        tried = "a shorter timeout" if ends_at_timeout else "two timeouts"
        return Recommendation(None, f"No timeout is recommended: try at least {tried}.", doubt)
    longest = known[-1]
    answered = _answered(longest)
    limit = format_ms(longest["timeout_ms"])
    goal = next((goal for goal in GOALS if answered >= _answers_needed(goal)), None)
    if goal is None:
        return Recommendation(
            None,
            f"No timeout is recommended: {limit} answers {answered:,} requests, and at least "
            f"{_answers_needed(GOALS[-1]):,} are needed to compare shares.",
            doubt,
        )
    chosen = next(row for row in known if _answered(row) >= goal * answered)
    unanswered = (longest["requests"] - answered) / longest["requests"]
    caveat = _after_the_timeout(longest) if ends_at_timeout and longest["expired"] else ()
    if chosen is longest and unanswered > 1 - goal:
        lost = 1 - _answered(known[-2]) / answered
        shorter = format_ms(known[-2]["timeout_ms"])
        if ends_at_timeout:
            reason = (
                f"Choose no timeout below {limit}: {shorter} loses {format_share(lost)} of the "
                f"{answered:,} requests that {limit} answers."
            )
        else:
            reason = (
                f"No timeout is recommended: {limit}, the longest one tried, still answers "
                f"{format_share(lost)} more than {shorter}. Try longer ones."
            )
        return Recommendation(None, reason, (*doubt, *_steep(known), *caveat))
    details = (
        *doubt,
        *(
            _unanswered_share(chosen, in_use, intervals)
            if intervals
            else _expired_share(chosen, in_use, rows)
        ),
        *_steep([row for row in known if row["timeout_ms"] <= chosen["timeout_ms"]]),
        *_memory(chosen),
        *(caveat or _never_answered(longest)),
    )
    return Recommendation(int(chosen["timeout_ms"]), _reason(chosen, longest, goal), details)


def _ends_at_timeout(
    rows: Sequence[WhatIfRow], longest_in_use: int, late_answers: int | None
) -> bool:
    """Return whether requests expired in the trace, but none was answered after its timeout."""
    beyond = [row for row in rows if row["timeout_ms"] >= longest_in_use]
    if not beyond or beyond[0]["timeout_ms"] != longest_in_use or not beyond[0]["expired"]:
        # Without the longest one in use, the trace's own timeouts might have answered as many.
        return False
    if late_answers is not None:
        return late_answers == 0
    return len(beyond) > 1 and beyond[-1]["expired"] == beyond[0]["expired"]


def _estimated(
    rows: Sequence[WhatIfRow], times: AnswerTimes
) -> tuple[list[WhatIfRow], dict[int, Unanswered]]:
    """Return the rows of timeouts that are known, with estimates, and these by timeout."""
    known: list[WhatIfRow] = []
    intervals = {}
    for row in rows:
        estimate = times.unanswered_after(row["timeout_ms"], _answered(row))
        if estimate is not None:
            intervals[row["timeout_ms"]] = estimate
            expired = round(estimate.share * row["requests"])
            known.append({**row, "expired": expired, "expired_share": estimate.share})
    return known, intervals


def _censored(censoring: Censoring) -> tuple[str, ...]:
    """Return sentences on the requests of which it is not known when they would have ended."""
    cut_off, requests = censoring.cut_off, censoring.times.total
    sentences = []
    if cut_off is not None:
        share = format_share(cut_off.requests / requests)
        sentences.append(
            f"{cut_off.requests:,} requests ({share}) took {format_ms(cut_off.at_ms)}, as if they "
            "were given up then: they count as not answered. If a column has their status, import "
            "it with --status COLUMN and --unanswered VALUE,VALUE."
        )
    given_up = censoring.requests - (cut_off.requests if cut_off else 0)
    if given_up:
        sentences.append(
            f"{given_up:,} requests ({format_share(given_up / requests)}) were given up without an "
            "answer; how long they would have taken is estimated from the others (Kaplan-Meier)."
        )
    return tuple(sentences)


def _unanswered_share(
    chosen: WhatIfRow, in_use: Sequence[int], intervals: Mapping[int, Unanswered]
) -> tuple[str, ...]:
    then = f"Then {_interval(intervals[chosen['timeout_ms']])} of all requests are not answered"
    used = [timeout for timeout in dict.fromkeys(in_use) if timeout in intervals]
    if len(used) != 1 or used == [chosen["timeout_ms"]]:
        return (f"{then}.",)
    return (
        f"{then}; with {format_ms(used[0])}, which is in use, {_interval(intervals[used[0]])}.",
    )


def _interval(estimate: Unanswered) -> str:
    low, high = format_share(estimate.low), format_share(estimate.high)
    return f"{format_share(estimate.share)} (95 % interval: {low} to {high})"


def _answered(row: WhatIfRow) -> int:
    return row["requests"] - row["expired"]


def _answers_needed(goal: float) -> int:
    return round(3 / (1 - goal))


def _reason(chosen: WhatIfRow, longest: WhatIfRow, goal: float) -> str:
    answered, most = _answered(chosen), _answered(longest)
    share = "all" if answered == most else _share_rounded_down(answered / most)
    if chosen is longest:
        return (
            f"Choose {format_ms(chosen['timeout_ms'])}: every shorter timeout tried loses more "
            f"than {format_share(1 - goal)} of the {most:,} requests that it answers."
        )
    return (
        f"Choose {format_ms(chosen['timeout_ms'])}: it answers {share} of the {most:,} requests "
        f"that would be answered within {format_ms(longest['timeout_ms'])}."
    )


def _share_rounded_down(share: float) -> str:
    """Return a share that is not larger than it is: 0.99996 is not all."""
    return f"{math.floor(share * 10_000) / 100:.2f} %"


def _expired_share(
    chosen: WhatIfRow, in_use: Sequence[int], rows: Sequence[WhatIfRow]
) -> tuple[str, ...]:
    share = format_share(chosen["expired_share"])
    if list(in_use) == [chosen["timeout_ms"]]:
        return (f"It is in use already; {share} of all requests expire.",)
    then = f"Then {share} of all requests expire"
    current = [row for row in rows if [row["timeout_ms"]] == list(in_use)]
    if not current:
        return (f"{then}.",)
    (used,) = current
    used_share = format_share(used["expired_share"])
    return (f"{then}; with {format_ms(used['timeout_ms'])}, which is in use, {used_share} do.",)


def _steep(rows: Sequence[WhatIfRow]) -> tuple[str, ...]:
    """Return where halving the timeout at least doubles the expired share, nearest to the end."""
    steep: list[WhatIfRow] = []
    for longer, shorter in zip(rows[:0:-1], rows[-2::-1], strict=True):
        if _growth_per_halving(shorter, longer) >= _STEEP:
            steep = [*(steep or [longer]), shorter]
        elif steep:
            break
    if not steep:
        return ()
    low, high = format_ms(steep[-1]["timeout_ms"]), format_ms(steep[0]["timeout_ms"])
    shares = [format_share(row["expired_share"]) for row in (steep[0], steep[-1])]
    return (
        f"From {high} down to {low}, each halving at least doubles the expired share: "
        f"{shares[0]} become {shares[1]}.",
    )


def _growth_per_halving(shorter: WhatIfRow, longer: WhatIfRow) -> float:
    if shorter["expired"] < _MIN_EXPIRED or not shorter["timeout_ms"]:
        return 0.0
    if not longer["expired"]:
        return math.inf
    halvings = math.log2(longer["timeout_ms"] / shorter["timeout_ms"])
    return float((shorter["expired"] / longer["expired"]) ** (1 / halvings))


def _memory(chosen: WhatIfRow) -> tuple[str, ...]:
    pending = int(chosen["peak_pending"])
    return (
        f"At the peak {pending:,} request{'s are' if pending != 1 else ' is'} then pending on the "
        f"busiest host, in {format_bytes(chosen['peak_bytes'])}.",
    )


def _never_answered(longest: WhatIfRow) -> tuple[str, ...]:
    if not longest["expired"]:
        return ()
    share = format_share(longest["expired_share"])
    return (f"{share} of all requests are not answered within {format_ms(longest['timeout_ms'])}.",)


def _after_the_timeout(longest: WhatIfRow) -> tuple[str, ...]:
    return (
        f"What a timeout above {format_ms(longest['timeout_ms'])} would answer is unknown: the "
        "trace has no answer that came after a timeout.",
    )

"""Which timeout to choose, from the outcomes of a trace under several timeouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from purgatory_spark._analysis.small_tables import WhatIfRow
from purgatory_spark._analysis.units import format_bytes, format_ms, format_share

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
    rows: Sequence[WhatIfRow], in_use: Sequence[int], late_answers: int | None = None
) -> Recommendation:
    """Recommend the shortest timeout that answers almost what the longest one would.

    A trace may not say what happens after its own timeouts: nothing in it was answered later,
    although requests expired. Then timeouts above the shortest one in use are not considered.

    There is no recommendation if fewer than two timeouts were tried, if there are too few answers,
    or if the longest timeout still answers clearly more than the others. If it is not known how
    many requests were satisfied after their own timeout, `rows` tell, where they have the longest
    one in use.
    """
    ends_at_timeout = bool(in_use) and _ends_at_timeout(rows, max(in_use), late_answers)
    known = [row for row in rows if not ends_at_timeout or row["timeout_ms"] <= min(in_use)]
    if len(known) < 2:
        tried = "a shorter timeout" if ends_at_timeout else "two timeouts"
        return Recommendation(None, f"No timeout is recommended: try at least {tried}.")
    longest = known[-1]
    answered = _answered(longest)
    limit = format_ms(longest["timeout_ms"])
    goal = next((goal for goal in GOALS if answered >= _answers_needed(goal)), None)
    if goal is None:
        return Recommendation(
            None,
            f"No timeout is recommended: {limit} answers {answered:,} requests, and at least "
            f"{_answers_needed(GOALS[-1]):,} are needed to compare shares.",
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
        return Recommendation(None, reason, (*_steep(known), *caveat))
    details = (
        *_expired_share(chosen, in_use, rows),
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

"""What an analysis found, in sentences: which timeout, what changed at marks, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from purgatory_spark._analysis.contributors import is_clear, stands_out
from purgatory_spark._analysis.cut_off import CutOff
from purgatory_spark._analysis.recommendation import Recommendation, recommend
from purgatory_spark._analysis.small_tables import ContributorRow, MarkRow, SmallTables, SummaryRow
from purgatory_spark._analysis.units import format_ms, format_share

_NOUNS = {"host": "host", "request_type": "request type"}
#: Smaller parts of a change are not named.
_LEAST_PART = 0.01


@dataclass(frozen=True)
class Findings:
    """What an analysis found, as sentences with figures."""

    timeout: Recommendation
    changes: tuple[str, ...]
    contributors: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, the timeout first."""
        return (*self.timeout.sentences, *self.changes, *self.contributors)


def find(tables: SmallTables) -> Findings:
    """Find what an analysis has to say, without a Spark job."""
    late_answers = sum(row["satisfied_late"] for row in tables.waits)
    censoring = tables.censoring
    return Findings(
        recommend(tables.what_if, tables.timeouts_in_use, late_answers, censoring),
        describe_changes(tables.marks, tables.contributors),
        describe_contributors(
            tables.overall, tables.contributors, None if censoring is None else censoring.cut_off
        ),
    )


def describe_changes(
    marks: Sequence[MarkRow], contributors: Sequence[ContributorRow]
) -> tuple[str, ...]:
    """Describe what changed at each mark, and the hosts and types that the change is of."""
    sentences = []
    for label, at in dict.fromkeys((row["label"], row["at"]) for row in marks):
        sides = {row["side"]: row for row in marks if (row["label"], row["at"]) == (label, at)}
        name = f"{label} ({at.astimezone(UTC):%Y-%m-%d %H:%M:%S})"
        if len(sides) < 2:
            (side,) = sides
            sentences.append(f"All requests of the trace arrived {side} {name}.")
            continue
        before, after = sides["before"], sides["after"]
        sentences.append(f"{name}: {_change(before, after)}.")
        of_mark = [row for row in contributors if (row["label"], row["at"]) == (label, at)]
        if _changed(before, after):
            sentences += _describe_extra(of_mark)
    return tuple(sentences)


def _changed(before: MarkRow, after: MarkRow) -> bool:
    return is_clear(after["requests"], after["expired"], before["requests"], before["expired"])


def _change(before: MarkRow, after: MarkRow) -> str:
    shares = [
        f"{format_share(side['expired_share'])} of {side['requests']:,} requests"
        for side in (before, after)
    ]
    if _changed(before, after):
        verb = "rose" if after["expired_share"] > before["expired_share"] else "fell"
        expired = f"the expired share {verb} from {shares[0]} to {shares[1]}"
    else:
        expired = (
            f"the expired share did not clearly change ({shares[0]} before, {shares[1]} after)"
        )
    median, p99 = (
        f"{format_ms(before[name])} to {format_ms(after[name])}" for name in ("p50_ms", "p99_ms")
    )
    return f"{expired}; the median wait went from {median}, and p99 from {p99}"


def _describe_extra(rows: Sequence[ContributorRow]) -> list[str]:
    """Return sentences on hosts and types with more, or fewer, expired requests after a mark."""

    def part(row: ContributorRow) -> float:
        return row["extra"] / row["extra_of_all"] if row["extra_of_all"] else 0.0

    standing_out = [
        row for row in _without_doubles(rows) if part(row) > _LEAST_PART and stands_out(row)
    ]
    return [
        f"{_named(row)} accounts for {_part(part(row))} of this change: of its "
        f"requests {_share(row['other_expired'], row['other_requests'])} expired before, and "
        f"{_share(row['expired'], row['requests'])} after."
        for row in standing_out
    ]


def describe_contributors(
    overall: SummaryRow, contributors: Sequence[ContributorRow], cut_off: CutOff | None = None
) -> tuple[str, ...]:
    """Describe the hosts and request types that have more than their part of expired requests.

    Requests of the cut-off count as expired. There is no sentence on a single host or type, or if
    no request expired.
    """
    expired = overall["expired"] + (cut_off.requests if cut_off else 0)
    if not expired:
        return ()
    which = "expired"
    if cut_off is not None:
        took = f"took {format_ms(cut_off.at_ms)}"
        which = f"expired or {took}" if overall["expired"] else took
    sentences = []
    of_trace = _without_doubles([row for row in contributors if row["at"] is None])
    for dimension, noun in _NOUNS.items():
        rows = [row for row in of_trace if row["dimension"] == dimension and row["other_requests"]]
        standing_out = [row for row in rows if row["extra"] > 0 and stands_out(row)]
        sentences += [
            f"{_named(row)} has {_part(row['requests'] / overall['requests'])} of the "
            f"requests, and {_part(row['expired'] / expired)} of those that {which}."
            for row in standing_out
        ]
        if rows and not standing_out:
            sentences.append(f"No {noun} expires clearly more often than the others.")
    return tuple(sentences)


def _without_doubles(rows: Sequence[ContributorRow]) -> list[ContributorRow]:
    """Return the rows without types that are hosts of the same name, with the same requests."""
    hosts = {
        (row["value"], row["requests"], row["expired"])
        for row in rows
        if row["dimension"] == "host"
    }
    return [
        row
        for row in rows
        if row["dimension"] == "host"
        or (row["value"], row["requests"], row["expired"]) not in hosts
    ]


def _named(row: ContributorRow) -> str:
    name = "without a name" if row["value"] is None else row["value"]
    return f"{_NOUNS[row['dimension']].capitalize()} {name}"


def _share(expired: int, requests: int) -> str:
    return format_share(expired / requests) if requests else "none"


def _part(share: float) -> str:
    """Return a share of a whole with two digits, at most 100 %."""
    return f"{min(share, 1.0) * 100:.2g} %" if share < 0.995 else "100 %"

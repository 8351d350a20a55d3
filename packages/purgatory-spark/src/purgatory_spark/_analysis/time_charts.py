"""Charts of a trace over time, which are zoomed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from purgatory_spark._analysis.charts import Axis, Chart, Line, Steps, Vertical
from purgatory_spark._analysis.small_tables import MarkRow, TimelineRow

_EPOCH = datetime(1970, 1, 1)


def complete_bins(
    timeline: list[TimelineRow], bin_ms: float, first: datetime, last: datetime
) -> list[TimelineRow]:
    """Return the bins that a trace covers as a whole; all if there is none.

    A trace begins and ends within a bin, whose counts are smaller for that alone.
    """
    width = timedelta(milliseconds=bin_ms)
    complete = [row for row in timeline if first <= row["from_at"] <= last - width]
    return complete or timeline


class TimeCharts:
    """The charts of a timeline, which has a row for each bin; times are in UTC, without a zone."""

    def __init__(
        self, timeline: list[TimelineRow], bin_ms: float, marks: Sequence[MarkRow], group: str
    ) -> None:
        self._timeline = timeline
        self._bin_ms = bin_ms
        self._group = group
        self._steps = Steps(_ms(timeline[0]["from_at"]), int(bin_ms), len(timeline))
        labels: dict[datetime, list[str]] = {}
        for mark in marks:
            of_time = labels.setdefault(mark["at"], [])
            if mark["label"] not in of_time:
                of_time.append(mark["label"])
        self._marks = [Vertical(_ms(at), ", ".join(names)) for at, names in labels.items()]

    def _chart(self, title: str, y: Axis, lines: Sequence[Line], *more: Vertical) -> Chart:
        verticals = [*self._marks, *more]
        return Chart(title, self._steps, y, lines, verticals=verticals, group=self._group)

    def _values(self, value: Callable[[TimelineRow], float | None]) -> list[float | None]:
        return [value(row) for row in self._timeline]

    def arrivals(self, first: datetime, last: datetime) -> Chart:
        """Return how many requests arrived a second, in the bins of `complete_bins`."""
        complete = {
            row["from_at"] for row in complete_bins(self._timeline, self._bin_ms, first, last)
        }
        rates = self._values(
            lambda row: row["arrived"] / self._bin_ms * 1000 if row["from_at"] in complete else None
        )
        line = Line("arrivals a second", "line", rates, filled=True)
        return self._chart("Arrivals over time", Axis("number"), [line])

    def pending(self, last: datetime) -> Chart:
        """Return the most pending requests in each bin."""
        peaks = self._values(lambda row: row["peak_pending"])
        line = Line("most pending requests", "line", peaks, filled=True)
        end = self._timeline[-1]["from_at"] + timedelta(milliseconds=self._bin_ms)
        goes_on = last < end - timedelta(milliseconds=self._bin_ms)
        ends = [Vertical(_ms(last), "last arrival", "soft")] if goes_on else []
        return self._chart("Pending requests over time", Axis("integer"), [line], *ends)

    def expired(self) -> Chart:
        """Return the expired share by time of arrival, with a gap at bins without arrivals."""
        shares = self._values(
            lambda row: row["expired"] / row["arrived"] if row["arrived"] else None
        )
        line = Line("expired share of arrivals", "expired", shares)
        return self._chart("Share of requests that expired, over time", Axis("share"), [line])

    def waits(self) -> Chart:
        """Return p50 and p99 of the waits on a log scale, with gaps without arrivals."""
        lines = [
            Line("p99", "expired", self._values(lambda row: row["p99_ms"])),
            Line("p50", "line", self._values(lambda row: row["p50_ms"])),
        ]
        positive = [value for line in lines for value in line.values if value]
        y = Axis("ms")
        if positive:
            has_zero = any(value == 0 for line in lines for value in line.values)
            # A tenth of the least wait, which is off the other values.
            y = Axis("ms", log=True, zero=min(positive) / 10 if has_zero else None)
        return self._chart("Waiting times over time", y, lines)


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)

"""What other timeouts would have done, as a DataFrame and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from markupsafe import Markup
from pyspark.sql import DataFrame

from purgatory_spark._analysis.answer_times import AnswerTimes
from purgatory_spark._analysis.chart_files import chart_frame
from purgatory_spark._analysis.charts import what_if_curve
from purgatory_spark._analysis.cut_off import censoring_of
from purgatory_spark._analysis.recommendation import Recommendation, recommend
from purgatory_spark._analysis.small_tables import WhatIfRow
from purgatory_spark._analysis.units import (
    common_unit,
    format_bytes,
    format_in,
    format_ms,
    format_share,
)
from purgatory_spark._notebook.html import html_table


class WhatIf:
    """The outcomes of a trace under other timeouts.

    Jupyter shows it as a picture and a table, which computes them.

    Attributes:
        timeouts: The timeouts in ms, ascending.
        table: A lazy DataFrame with a row for each timeout (`what_if.what_if`).
        timeouts_in_use: The shortest and the longest timeout of the trace in ms.
    """

    def __init__(
        self,
        timeouts: Sequence[int],
        table: DataFrame,
        timeouts_in_use: Sequence[int],
        answers: Callable[[], AnswerTimes],
        parameters: Mapping[str, Any],
    ) -> None:
        """`answers`: returns when requests were answered. `parameters`: those of the trace."""
        self.timeouts = sorted(set(timeouts))
        self.table = table
        self.timeouts_in_use = list(timeouts_in_use)
        self._answers = answers
        self._parameters = parameters

    @cached_property
    def rows(self) -> list[WhatIfRow]:
        """The rows of the table, in order of the timeouts; computed at the first use."""
        rows: list[WhatIfRow] = self.table.toArrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["timeout_ms"]))

    @cached_property
    def recommendation(self) -> Recommendation:
        """The timeout to choose of those tried, and why; computed at the first use."""
        censoring = censoring_of(self._answers(), self.timeouts_in_use, self._parameters)
        return recommend(self.rows, self.timeouts_in_use, censoring=censoring)

    def _repr_html_(self) -> str:
        if not self.rows:
            return "<p>The trace has no requests.</p>"
        chosen = self.recommendation
        chart = chart_frame(what_if_curve(self.rows, self.timeouts_in_use, chosen.timeout_ms))
        unit, unit_ms = common_unit(row["mean_waited_ms"] for row in self.rows)
        waits = f"mean wait ({unit})"
        headings = ("timeout", "expired", "share", waits, "peak pending", "peak memory")
        table = html_table(headings, [self._cells(row, unit_ms) for row in self.rows])
        return Markup("<p><b>{}</b> {}</p>{}{}").format(
            chosen.reason, " ".join(chosen.details), chart, table
        )

    def _cells(self, row: WhatIfRow, unit_ms: float) -> list[str]:
        in_use = " (in use)" if row["timeout_ms"] in self.timeouts_in_use else ""
        return [
            format_ms(row["timeout_ms"]) + in_use,
            f"{row['expired']:,}",
            format_share(row["expired_share"]),
            format_in(row["mean_waited_ms"], unit_ms),
            f"{row['peak_pending']:,}",
            format_bytes(row["peak_bytes"]),
        ]

    def __repr__(self) -> str:
        # Not the table: where a session evaluates eagerly, its text is its rows.
        return f"WhatIf(timeouts={self.timeouts}; use table, rows or recommendation)"

"""Rows that have no outcome, as JSON: repeated requests, and those that break a rule."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.repeats import repeated_in_table
from purgatory_spark._rows.trace_columns import IDENTITY
from purgatory_spark._spark.arrays import Bools, Ints, Words

#: The value of `kind` in rejects.
REJECT_KIND = "rejects"


def split_repeated(
    requests: pa.Table, arrived_us: Ints, deadline_us: Ints, ties_of: Callable[[Ints], Words]
) -> tuple[Bools, list[str]]:
    """Return which good requests are repeated, and these as JSON.

    `ties_of`: returns the `repeats.tie_numbers` of some rows.
    """
    repeated = repeated_in_table(
        requests.column("host"), requests.column("request_id"), arrived_us, deadline_us, ties_of
    )
    at = np.flatnonzero(repeated)
    if not len(at):
        return repeated, []
    rows = requests.select(IDENTITY).take(pa.array(at))
    timeouts_ms = (deadline_us[at] - arrived_us[at]) // 1000
    rows = rows.append_column("arrived_at", pa.array(arrived_us[at]))
    return repeated, rows_as_json(rows.append_column("timeout_ms", pa.array(timeouts_ms)))


def rows_as_json(rows: pa.Table) -> list[str]:
    """Return rows, with microseconds for times, as JSON without nulls, like other rejects."""
    return [
        json.dumps(
            {name: _json_value(name, value) for name, value in row.items() if value is not None},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for row in rows.to_pylist()
    ]


def _json_value(name: str, value: Any) -> Any:
    if name in ("arrived_at", "occurred_at"):
        return str(np.datetime_as_string(np.datetime64(value, "us"), timezone="UTC"))
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

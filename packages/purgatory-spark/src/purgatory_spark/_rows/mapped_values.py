"""The fields of requests and events in a user's tables, by a mapping of its columns."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._rows.checks import MAX_TIME_US, quantifier_checks
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import AGGREGATES, PASSED
from purgatory_spark._rows.values import (
    Values,
    duration_values,
    key_values,
    number_values,
    text_values,
    time_values,
    timeout_values,
)

#: The host of all requests where no column has it.
_HOST = "host-0"


def request_values(rows: DataFrame, mapping: TableMapping) -> Values:
    """Return the fields of requests, with times as `arrived_us` and `ended_us`."""
    columns = mapping.columns
    values = Values()

    def text(name: str, default: str | None, *, required: bool = True) -> None:
        if name in columns:
            values.add(text_values(rows, name, mapping.column(name), required=required))
        else:
            values.columns[name] = F.lit(default).cast("string")

    text("host", _HOST)
    text("request_id", "")
    for passed in PASSED:
        text(passed.name, passed.default, required=False)
    unit, zone = mapping.time_unit, mapping.time_zone
    values.add(time_values(rows, "arrived_us", mapping.column("arrived_at"), unit, zone))
    if "ended_at" in columns:
        values.add(
            time_values(rows, "ended_us", mapping.column("ended_at"), unit, zone, required=False)
        )
    elif "service_ms" in columns:
        column = mapping.column("service_ms")
        values.add(duration_values(rows, column))
        is_given = ~F.col("no_ended_us")
        values.checks += [
            (f"unparsable {column}", is_given & F.col("ended_us").isNull()),
            (f"{column} beyond the year 2199", F.col("ended_us") > MAX_TIME_US),
        ]
    else:
        values.columns["ended_us"] = F.lit(None).cast("bigint")
    values.checks.append(("end before start", F.col("ended_us") < F.col("arrived_us")))
    if "timeout_ms" in columns:
        values.add(timeout_values(rows, mapping.column("timeout_ms")))
    else:
        values.columns["timeout_ms"] = F.lit(mapping.timeout_ms)
    if mapping.key_columns:
        values.add(key_values(rows, mapping.key_columns))
    text("aggregate", mapping.aggregate)
    values.checks.append(("unknown aggregate", ~F.col("aggregate").isin(*AGGREGATES)))
    if "threshold" in columns:
        is_nan = ("threshold is not a number", F.isnan("threshold"))
        values.add(number_values(rows, "threshold", mapping.column("threshold"), [is_nan]))
    else:
        values.columns["threshold"] = F.lit(float(mapping.threshold))
    text("quantifier", mapping.constant_quantifier)
    num_keys = F.size(F.array_distinct("watch_keys")) if mapping.key_columns else F.lit(1)
    values.checks += quantifier_checks(num_keys)
    return values


def event_values(rows: DataFrame, mapping: TableMapping) -> Values:
    """Return the fields of events, with the time as `occurred_us`."""
    columns = mapping.event_columns
    values = Values()
    if "host" in columns:
        values.add(text_values(rows, "host", columns["host"]))
    else:
        values.columns["host"] = F.lit(_HOST)
    values.add(text_values(rows, "key", columns["key"]))
    unit, zone = mapping.time_unit, mapping.time_zone
    values.add(time_values(rows, "occurred_us", columns["occurred_at"], unit, zone))
    if "amount" in columns:
        amount = F.col("amount")
        is_infinite = F.isnan(amount) | (F.abs(amount) == float("inf"))
        checks = [
            ("amount is not a finite number", is_infinite),
            ("negative amount", amount < 0),
        ]
        values.add(number_values(rows, "amount", columns["amount"], checks))
    else:
        values.columns["amount"] = F.lit(1.0)
    return values

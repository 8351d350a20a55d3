"""Compute the fields of requests and events from rows of a mapped table.

A request that was given up has a status instead of an answer: it expires at its end.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._rows.checks import (
    MAX_TIME_US,
    MIN_TIME_US,
    add_ms,
    amount_checks,
    flag_rejects,
    malformed_check,
    quantifier_checks,
)
from purgatory_spark._rows.mapping import HOST, TableMapping
from purgatory_spark._rows.repeated_hours import with_repeated_hours
from purgatory_spark._rows.schema import AGGREGATES, EVENTS, MAX_TIMEOUT_MS, PASSED, REQUESTS
from purgatory_spark._rows.values import (
    Values,
    duration_values,
    key_values,
    number_values,
    text_values,
    time_values,
    timeout_values,
)
from purgatory_spark._spark.files import CORRUPT, JSON_OPTIONS, POSITION, RAW, SOURCE

#: Whether a request was given up without an answer.
_UNANSWERED = "is_unanswered"


def with_row_columns(table: DataFrame, source: str | None = None) -> DataFrame:
    """Return a table with the columns that describe a row and its source, unless it has them."""
    described = {
        CORRUPT: F.lit(None).cast("string"),
        RAW: F.to_json(F.struct("*"), JSON_OPTIONS),
        SOURCE: F.lit(source).cast("string"),
    }
    missing = [
        column.alias(name) for name, column in described.items() if name not in table.columns
    ]
    return table.select("*", *missing)


def flagged_rows(rows: DataFrame, values: Values) -> DataFrame:
    """Compute the values of rows that have those columns, and add `REASON`."""
    columns = [column.alias(name) for name, column in values.columns.items()]
    position = [POSITION] if POSITION in rows.columns else []
    parsed = with_repeated_hours(rows.select(SOURCE, RAW, CORRUPT, *position, *columns))
    if "arrived_us" not in values.columns and "service_ms" in values.columns:
        parsed = parsed.withColumn("arrived_us", add_ms(F.col("ended_us"), -F.col("service_ms")))
    elif "service_ms" in values.columns:
        parsed = parsed.withColumn("ended_us", add_ms(F.col("arrived_us"), F.col("service_ms")))
    flagged = flag_rejects(parsed, [malformed_check(), *values.checks])
    return _given_up(flagged) if _UNANSWERED in values.columns else flagged


def _given_up(flagged: DataFrame) -> DataFrame:
    """Let the requests that were given up expire then, instead of having an end."""
    waited_ms = F.floor(F.try_subtract("ended_us", "arrived_us") / 1000)
    is_known = F.col(_UNANSWERED) & waited_ms.between(0, MAX_TIMEOUT_MS)
    return flagged.withColumns(
        {
            "timeout_ms": F.when(is_known, waited_ms.cast("int")).otherwise(F.col("timeout_ms")),
            "ended_us": F.when(~F.col(_UNANSWERED), F.col("ended_us")),
        }
    )


def request_values(rows: DataFrame, mapping: TableMapping) -> Values:
    """Return the fields of requests, with times as `arrived_us` and `ended_us`."""
    columns = mapping.columns
    values = Values()

    def text(name: str, default: str | None, *, required: bool = True) -> None:
        if name in columns:
            values.add(text_values(rows, name, mapping.column(name), required=required))
        else:
            values.columns[name] = F.lit(default).cast("string")

    text("host", HOST)
    text("request_id", "")
    for passed in PASSED:
        text(passed.name, passed.default, required=False)
    unit, zone = mapping.time_unit, mapping.time_zone
    is_answered = F.lit(True)
    if mapping.status is not None:
        status = text_values(rows, "status", mapping.status, required=False)
        is_unanswered = status.columns["status"].isin(*mapping.unanswered)
        values.columns[_UNANSWERED] = F.coalesce(is_unanswered, F.lit(False))
        is_answered = ~F.col(_UNANSWERED)
    has_arrival = "arrived_at" in columns
    if has_arrival:
        values.add(time_values(rows, "arrived_us", mapping.column("arrived_at"), unit, zone))
    if "ended_at" in columns:
        ended = mapping.column("ended_at")
        values.add(time_values(rows, "ended_us", ended, unit, zone, required=not has_arrival))
    service = mapping.service_field
    if service is not None:
        column = mapping.column(service)
        values.add(duration_values(rows, column, in_seconds=service == "service_s"))
        if has_arrival:
            is_given = ~F.col("no_service_ms") & is_answered
            values.checks += [
                (f"unparsable {column}", is_given & F.col("ended_us").isNull()),
                (f"{column} beyond the year 2199", F.col("ended_us") > MAX_TIME_US),
            ]
        else:
            # Without a duration it is not known when the request arrived.
            arrived_us = F.col("arrived_us")
            values.checks += [
                (f"null {column}", F.col("no_service_ms")),
                (f"unparsable {column}", arrived_us.isNull()),
                (f"negative {column}", F.col("service_ms") < 0),
                (f"{column} before the year 1900", arrived_us < MIN_TIME_US),
            ]
    elif "ended_at" not in columns:
        values.columns["ended_us"] = F.lit(None).cast("bigint")
    values.checks.append(
        ("end before start", is_answered & (F.col("ended_us") < F.col("arrived_us")))
    )
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


def request_columns(watch_keys: Column | None = None) -> list[Column]:
    """Return the columns of `schema.REQUESTS`, of rows with the fields of `request_values`."""
    computed = {
        "arrived_at": F.timestamp_micros("arrived_us"),
        "timeout_ms": F.col("timeout_ms").cast("int"),
    }
    if watch_keys is not None:
        computed["watch_keys"] = watch_keys
    return [computed.get(name, F.col(name)).alias(name) for name in REQUESTS.names]


def event_values(rows: DataFrame, mapping: TableMapping) -> Values:
    """Return the fields of events, with the time as `occurred_us`."""
    columns = mapping.event_columns
    values = Values()
    if "host" in columns:
        values.add(text_values(rows, "host", columns["host"]))
    else:
        values.columns["host"] = F.lit(HOST)
    values.add(text_values(rows, "key", columns["key"]))
    unit, zone = mapping.time_unit, mapping.time_zone
    values.add(time_values(rows, "occurred_us", columns["occurred_at"], unit, zone))
    if "amount" in columns:
        values.add(number_values(rows, "amount", columns["amount"], amount_checks()))
    else:
        values.columns["amount"] = F.lit(1.0)
    return values


def event_columns() -> list[Column]:
    """Return the columns of `schema.EVENTS`, of rows with the fields of `event_values`."""
    computed = {"occurred_at": F.timestamp_micros("occurred_us")}
    return [computed.get(name, F.col(name)).alias(name) for name in EVENTS.names]

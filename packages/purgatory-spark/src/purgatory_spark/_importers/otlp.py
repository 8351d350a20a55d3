"""Import spans that an OpenTelemetry collector has exported: OTLP as JSON lines.

A line is a batch of spans of several services, as the collector's file exporter writes it. Source:
https://opentelemetry.io/docs/specs/otlp/ (JSON encoding) and opentelemetry/proto/trace/v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._importers.spans import ROOT, GivenUp, spans_trace
from purgatory_spark._importers.table_source import TableSource, load_json
from purgatory_spark._spark.file_columns import file_name
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE

#: The names of a span's fields in OTLP, by field of the span import.
_NAMES: Mapping[str, str] = {
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_id": "parentSpanId",
    "service": "service.name",
    "operation": "name",
    "start": "startTimeUnixNano",
    "end": "endTimeUnixNano",
}
_SPAN_FIELDS = [name for field, name in _NAMES.items() if field != "service"]
_ATTRIBUTES = (
    "attributes: ARRAY<STRUCT<key: STRING, value: STRUCT<stringValue: STRING, intValue: STRING>>>"
)
#: The status of a span; other names are those of attributes.
_STATUS_CODE = "status.code"
_STATUS = "_purgatory_status"


def _schema(status: str | None) -> str:
    # Times are 64-bit integers, which are text in JSON. Numbers are read as text, too.
    fields = [f"{name}: STRING" for name in _SPAN_FIELDS]
    if status is not None:
        fields.append("status: STRUCT<code: STRING>" if status == _STATUS_CODE else _ATTRIBUTES)
    return f"""
    resourceSpans ARRAY<STRUCT<
      resource: STRUCT<{_ATTRIBUTES}>,
      scopeSpans: ARRAY<STRUCT<spans: ARRAY<STRUCT<{", ".join(fields)}>>>>>>,
    {CORRUPT} STRING
    """


def import_otlp(
    spark: SparkSession,
    source: TableSource,
    *,
    timeout_ms: int = 1000,
    keys: str = "children",
    quantifier: str = "all",
    status: str | None = None,
    unanswered: Sequence[str] = (),
) -> ImportedTrace:
    """Import an OTLP export as spans; see `spans.import_spans`.

    The host of a span is the attribute `service.name` of its resource. Lines of metrics or logs
    have no spans. `status`: `status.code`, or an attribute of spans.
    """
    lines = load_json(spark, source, schema=_schema(status)).withColumn(SOURCE, file_name())
    trace = spans_trace(
        _spans(lines, status),
        _NAMES,
        timeout_ms=timeout_ms,
        keys=keys,
        quantifier=quantifier,
        given_up=None if status is None else GivenUp(status, tuple(unanswered), _STATUS),
    )
    trace.format = "otlp"
    return trace


def _attribute(attributes: Column, name: str) -> Column:
    """Return an attribute's value, if it is text or a whole number."""
    found = F.filter(attributes, lambda attribute: attribute["key"] == name)
    value = F.try_element_at(found, F.lit(1))["value"]
    return F.coalesce(value["stringValue"], value["intValue"])


def _spans(lines: DataFrame, status: str | None) -> DataFrame:
    """Return a row for each span and each malformed line, with the columns of `_NAMES`."""
    resources = lines.select(
        SOURCE,
        CORRUPT,
        F.explode_outer("resourceSpans").alias("resource"),
    ).where(F.col(CORRUPT).isNotNull() | F.col("resource").isNotNull())
    spans = resources.select(
        SOURCE,
        CORRUPT,
        _attribute(F.col("resource.resource.attributes"), "service.name").alias("service.name"),
        F.explode_outer(F.flatten("resource.scopeSpans.spans")).alias("span"),
    ).where(F.col(CORRUPT).isNotNull() | F.col("span").isNotNull())
    columns = [F.col("span")[name].alias(name) for name in _SPAN_FIELDS]
    of_status = []
    if status is not None:
        span = F.col("span")
        is_code = status == _STATUS_CODE
        code = span["status"]["code"] if is_code else _attribute(span["attributes"], status)
        of_status = [code.alias(_STATUS)]
    whole = F.to_json(F.struct("`service.name`", *columns))
    parent = F.coalesce(F.col("span")["parentSpanId"], F.lit(""))
    return spans.select(
        SOURCE,
        CORRUPT,
        F.coalesce(CORRUPT, whole).alias(RAW),
        "`service.name`",
        *[
            column
            for column, name in zip(columns, _SPAN_FIELDS, strict=True)
            if name != "parentSpanId"
        ],
        F.when(parent == "", ROOT).otherwise(parent).alias("parentSpanId"),
        *of_status,
    )

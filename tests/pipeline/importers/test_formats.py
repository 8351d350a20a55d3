"""Each format on small files: what is good becomes requests and events, what is bad is counted and kept."""

from __future__ import annotations

import bz2
import gzip
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.importers.imported import TraceFormatError
from request_purgatory.pipeline.schema import SchemaError
from request_purgatory.pipeline.traces import ImportSettings, Trace, import_trace
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.pipeline.trace_strategies import events_table, requests_table

SPANS = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"
TOKENS = "TIMESTAMP,ContextTokens,GeneratedTokens"


def imported(spark: SparkSession, source: Path, **settings: Any) -> Trace:
    """The trace, in a folder beside its source."""
    target = source.parent / f"{source.name}.trace"
    target.mkdir()
    trace = import_trace(spark, source, target, ImportSettings(**settings))
    rows = trace.manifest["rows"]
    came_in = sum(count for name, count in rows.items() if name.endswith(" in"))
    assert trace.rejects(spark).count() == rows["rejected"] == sum(trace.manifest["rejected"].values()) <= came_in
    return trace


def csv(folder: Path, *lines: str, name: str = "table.csv") -> Path:
    """A file of the lines."""
    file = folder / name
    text = "\n".join(lines) + "\n"
    if name.endswith(".gz"):
        file.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".bz2"):
        file.write_bytes(bz2.compress(text.encode()))
    else:
        file.write_text(text, encoding="utf-8")
    return file


def ended(trace: Trace, spark: SparkSession) -> dict[str, list[float]]:
    """Of each request's host, when its events occurred, in seconds since the epoch."""
    rows = trace.events(spark).selectExpr("key", "unix_micros(occurred_at) / 1e6 AS at").collect()
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["key"], []).append(row["at"])
    return found


def test_spans_with_children_are_requests(spark: SparkSession, tmp_path: Path) -> None:
    """They wait on their own service for the ends of all their children; leaves and orphans ask for nothing."""
    source = csv(
        tmp_path,
        SPANS,
        "t,top,root,front,Get,1000000000,3000000000,",
        "t,left,top,back,Read,1100000000,1200000999,",
        "t,right,top,back,Write,1100000000,4000000000,",
        "t,leaf,right,disk,Sync,1100000000,1150000000,",
        "t,orphan,elsewhere,disk,Sync,1100000000,1150000000,",
    )
    trace = imported(spark, source, timeout_ms=250)
    requests = {row["request_id"]: row for row in trace.requests(spark).collect()}
    assert set(requests) == {"top", "right"}
    top = requests["top"]
    assert (top["host"], top["request_type"], top["timeout_ms"]) == ("front", "Get", 250)
    assert (top["watch_keys"], top["aggregate"], top["threshold"], top["quantifier"]) == (["left", "right"], "count", 1.0, "all")
    assert ended(trace, spark) == {"left": [1.2], "right": [4.0], "leaf": [1.15]}
    assert {row["host"] for row in trace.events(spark).where("key = 'left'").collect()} == {"front"}


def test_spans_can_watch_operations_instead(spark: SparkSession, tmp_path: Path) -> None:
    """One key for each (service, operation) of the children."""
    source = csv(tmp_path, SPANS, "t,top,root,f,Get,1,9,", *[f"t,c{i},top,b,Read,2,{i},5" for i in range(3, 6)])
    trace = imported(spark, source, keys="operations")
    assert trace.requests(spark).collect()[0]["watch_keys"] == ["b/Read"]
    assert trace.events(spark).count() == 3


def test_bad_spans_are_counted_by_reason_and_kept(spark: SparkSession, tmp_path: Path) -> None:
    """With the file's name and the row as it was; the good ones go on."""
    source = csv(
        tmp_path,
        SPANS,
        "t,top,root,f,Get,1000,2000,",
        "t,kid,top,f,Get,1000,2000,",
        "t,kid,top,f,Get,1000,2000,",
        "t,,top,f,Get,1000,2000,",
        "t,a,top,f,Get,,2000,",
        "t,b,top,f,Get,soon,2000,",
        "t,c,top,f,Get,2000,1000,",
        "t,d,top,f",
        "t,e,top,f,Get,1000,2000,1,2,3",
        "t,g,top,f,Get,99999999999999999999999999999999999999999,2000,",
    )
    trace = imported(spark, source)
    assert trace.manifest["rejected"] == {
        "end before start": 1,
        "malformed row": 2,
        "null SpanID": 1,
        "null StartTimeUnixNano": 1,
        "repeated SpanID": 1,
        "unparsable StartTimeUnixNano": 2,
    }
    assert trace.manifest["rows"]["spans in"] == 10
    assert trace.manifest["rows"]["spans kept"] == 2
    rejects = {(row["reason"], row["source"], row["row"]) for row in trace.rejects(spark).collect()}
    assert ("malformed row", "table.csv", "t,d,top,f") in rejects
    assert any(reason == "end before start" and '"SpanID":"c"' in row for reason, _, row in rejects)


def test_inference_rows_get_derived_service_times(spark: SparkSession, tmp_path: Path) -> None:
    """From the costs given, and labelled so; each file is a host."""
    folder = tmp_path / "llm"
    folder.mkdir()
    csv(folder, TOKENS, "2023-11-16 18:17:03.9799600,100,10", "2023-11-16 18:17:04.0000001,0,0", name="code.csv")
    csv(
        folder,
        TOKENS,
        "2023-11-16 18:17:03,1,1",
        "bad,1,1",
        "2023-11-16 18:17:03,-1,1",
        "2023-11-16 18:17:03,x,",
        name="conv.csv.gz",
    )
    trace = imported(spark, folder, ms_per_context_token=1.0, ms_per_generated_token=20.0, timeout_ms=5)
    assert trace.manifest["notes"] == [
        "Service times are DERIVED, not recorded: 1 ms per context token + 20 ms per generated token."
    ]
    assert trace.manifest["rejected"] == {"negative ContextTokens": 1, "null GeneratedTokens": 1, "unparsable TIMESTAMP": 1}
    requests = {row["request_id"]: row for row in trace.requests(spark).collect()}
    assert {row["host"] for row in requests.values()} == {"code", "conv"}
    assert requests["code-000000001"]["arrived_at"].microsecond == 979960
    first = ended(trace, spark)["code-000000001"][0]
    assert first == pytest.approx(datetime.fromisoformat("2023-11-16T18:17:04.279960+00:00").timestamp(), abs=1e-6)


def test_any_table_is_read_with_a_mapping(spark: SparkSession, tmp_path: Path) -> None:
    """A row without an end was never answered."""
    source = csv(tmp_path, "when;x,done,who,patience", "1000,1250.5,a,50", "2000,,b,60", "3000,2999,c,70", "4000,4001,d,-1")
    mapping = {"arrived_at": "when;x", "ended_at": "done", "host": "who", "timeout_ms": "patience"}
    trace = imported(spark, source, columns=mapping, time_unit="ms")
    assert trace.manifest["rejected"] == {"end before start": 1, "negative timeout": 1}
    requests = {row["host"]: row for row in trace.requests(spark).collect()}
    assert {host: row["timeout_ms"] for host, row in requests.items()} == {"a": 50, "b": 60}
    assert requests["a"]["request_id"] == "000000000001"
    assert list(ended(trace, spark).values()) == [[1.2505]]


@pytest.mark.parametrize(
    ("unit", "text", "us"),
    [
        ("s", "1.5", 1_500_000),
        ("ms", "1.5", 1500),
        ("us", "1500", 1500),
        ("ns", "1999", 1),
        ("ns", "1661145982558265576", 1_661_145_982_558_265),
        ("iso", "2022-08-22T05:26:22.558265999Z", 1_661_145_982_558_265),
        ("iso", "2022-08-22 07:26:22.558265+02:00", 1_661_145_982_558_265),
        ("s", "2022-08-22 05:26:22.558265", 1_661_145_982_558_265),
    ],
)
def test_times_are_read_to_the_microsecond(spark: SparkSession, tmp_path: Path, unit: str, text: str, us: int) -> None:
    """Rounded down; text is UTC unless it names a zone."""
    source = csv(tmp_path, "at,took", f"{text},1")
    trace = imported(spark, source, columns={"arrived_at": "at", "service_ms": "took"}, time_unit=unit)
    assert [row[0] for row in trace.requests(spark).selectExpr("unix_micros(arrived_at)").collect()] == [us]


def test_parquet_with_typed_times_needs_no_unit(spark: SparkSession, tmp_path: Path) -> None:
    """In micro- and in nanoseconds."""
    moment = datetime.fromisoformat("2024-05-01T00:00:00+00:00")
    table = pa.table(
        {
            "at": pa.array([moment], pa.timestamp("us", tz="UTC")),
            "end": pa.array([int(moment.timestamp() * 1e9) + 1_234_567], pa.timestamp("ns", tz="UTC")),
        }
    )
    pq.write_table(table, tmp_path / "calls.parquet")
    trace = imported(spark, tmp_path / "calls.parquet", columns={"arrived_at": "at", "ended_at": "end"})
    assert list(ended(trace, spark).values()) == [[pytest.approx(moment.timestamp() + 0.001234, abs=5e-7)]]


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.csv.bz2"])
def test_compressed_and_plain_files_read_alike(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """With a byte order mark, quotes, and line ends of either kind."""
    source = csv(tmp_path, '\ufeffat,"took, ms"\r', '"1","2"\r', "3,4", name=name)
    trace = imported(spark, source, columns={"arrived_at": "at", "service_ms": "took, ms"}, time_unit="s")
    assert sorted(times[0] for times in ended(trace, spark).values()) == [1.002, 3.004]


def test_files_of_a_folder_may_have_their_columns_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    """Each is read by its own first line."""
    folder = tmp_path / "two"
    folder.mkdir()
    csv(folder, "at,took", "1,100", name="a.csv")
    csv(folder, "more,took,at", "x,200,2", name="b.csv")
    trace = imported(spark, folder, columns={"arrived_at": "at", "service_ms": "took"}, time_unit="s")
    assert sorted(times[0] for times in ended(trace, spark).values()) == [1.1, 2.2]


def test_recorded_rows_that_break_a_rule_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Of requests and of events."""
    good = TraceRequest("good", 1000, 5, ["k"], "count", 1.0, "all")
    bad = [
        TraceRequest("good", 1000, 5, ["k"], "count", 1.0, "all"),
        TraceRequest("when", 1000, -1, ["k"], "count", 1.0, "all"),
        TraceRequest("how", 1000, 5, ["k"], "median", 1.0, "all"),
        TraceRequest("which", 1000, 5, ["k"], "count", 1.0, "most"),
        TraceRequest("much", 1000, 5, ["k"], "count", float("nan"), "all"),
    ]
    events = [TraceEvent("k", 2000, 1.0), TraceEvent("k", 2000, -1.0), TraceEvent("k", 2000, float("inf"))]
    source = tmp_path / "recorded"
    for name, table in (("requests", requests_table([good, *bad])), ("events", events_table(events))):
        (source / name).mkdir(parents=True)
        pq.write_table(table, source / name / "part.parquet")
    trace = imported(spark, source)
    assert trace.manifest["format"] == "recorded"
    assert trace.manifest["rejected"] == {
        "amount is not a finite number": 1,
        "negative amount": 1,
        "negative timeout": 1,
        "repeated request_id": 1,
        "threshold is not a number": 1,
        "unknown aggregate": 1,
        "unknown quantifier": 1,
    }
    assert trace.manifest["rows"]["requests out"] == trace.manifest["rows"]["events out"] == 1


def test_recorded_table_of_another_schema_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """With the folder and the difference."""
    for name in ("requests", "events"):
        (tmp_path / "t" / name).mkdir(parents=True)
        pq.write_table(pa.table({"host": ["h"], "key": [1]}), tmp_path / "t" / name / "part.parquet")
    with pytest.raises(SchemaError, match=r"t/requests: request_id \(string\) is missing; .*quantifier"):
        imported(spark, tmp_path / "t")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"at,at\n1,2\n", "column 'at' stands in the first line more than once"),
        (b"\xff\xfe\x00\x01", "can't be read as CSV text"),
        (b"PK\x03\x04zip", "no known format has the columns|can't be read"),
    ],
)
def test_file_that_is_no_table_is_refused_by_name(spark: SparkSession, tmp_path: Path, content: bytes, message: str) -> None:
    """Before Spark reads a byte."""
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=rf"odd\.csv: .*({message})"):
        imported(spark, file)


def test_formats_with_fixed_columns_take_no_mapping(spark: SparkSession, tmp_path: Path) -> None:
    """Rather than leave it aside without a word."""
    source = csv(tmp_path, TOKENS, "2023-11-16 18:17:03,1,1")
    with pytest.raises(TraceFormatError, match=r"the columns of the format azure-llm are fixed: it takes no --map"):
        imported(spark, source, format="azure-llm", columns={"arrived_at": "TIMESTAMP"})


def test_known_incident_of_another_day_is_no_mark(spark: SparkSession, tmp_path: Path) -> None:
    """A folder's name alone does not say that the fault was in it."""
    source = csv(tmp_path, SPANS, "t,top,root,f,Get,1000,9000,", "t,kid,top,f,Get,2000,3000,", name="nezha.csv")
    assert imported(spark, source).marks == []


def test_table_with_no_rows_is_a_trace_without_requests(spark: SparkSession, tmp_path: Path) -> None:
    """Imported, and refused only where requests are needed."""
    trace = imported(spark, csv(tmp_path, SPANS))
    assert trace.manifest["rows"]["requests out"] == 0
    with pytest.raises(TraceFormatError, match="the trace has no requests"):
        trace.require_requests()


def test_damaged_gzip_is_told_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Also where only its end is missing."""
    from request_purgatory.pipeline.failures import describe_failure

    whole = gzip.compress((SPANS + "\n" + "".join(f"t,s{i},root,f,Get,{i},{i}\n" for i in range(50_000))).encode())
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Exception, match="cut") as failure:
        imported(spark, file)
    code, told = describe_failure(failure.value)
    assert code == 2
    assert "cut.csv.gz" in told

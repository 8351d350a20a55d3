"""`purgatory quick` answers which timeout without Spark, and refuses what it can't read."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import permutations, product
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import purgatory_spark
from purgatory_spark._local import table_files
from purgatory_spark._local.ended_requests import EndedRequests, end_own_requests, end_requests
from purgatory_spark._local.quick_trace import QuickTrace
from purgatory_spark._rows.column_checks import NOT_UTF8
from purgatory_spark._rows.column_times import times_us
from purgatory_spark._rows.trace_columns import AGGREGATES
from purgatory_spark._traces.import_settings import ImportSettings
from tests.spark.command import Purgatory, command_runner
from tests.spark.trace_folders import write_lines

#: A process in which neither PySpark is installed nor what streams and reports need.
WITHOUT_SPARK = """
import sys
NAMES = "pyspark py4j pandas google matplotlib jinja2 markupsafe prometheus_client".split()
from importlib.abc import MetaPathFinder
class NotInstalled(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in NAMES:
            # Who can do without it, and tries it for that, does not catch this.
            raise RuntimeError(f"{name!r} is imported")
sys.meta_path.insert(0, NotInstalled())
from purgatory_command import main
sys.exit(main())
"""
MAPPING = ("--map", "arrived_at=at", "--map", "service_ms=took", "--map", "host=pod")
ROWS = [
    (f"{1_700_000_000_000 + 7 * row}", f"{row % 400 + 1}", f"p{row % 3}") for row in range(5000)
]


@pytest.fixture
def purgatory(capsys: pytest.CaptureFixture[str]) -> Purgatory:
    return command_runner(capsys)


def write_calls(folder: Path, kind: str) -> Path:
    names = ("at", "took", "pod")
    file = folder / f"calls.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True))), file)
    elif kind == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in ROWS]
        file.write_text("\n".join(lines))
    elif kind == "log":
        file.write_text("".join(f"[{at}] {pod} {took}\n" for at, took, pod in ROWS))
    else:
        text = "\n".join(",".join(row) for row in [names, *ROWS])
        packed = kind.endswith(".gz")
        file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return file


def checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check an answer about `ROWS`, of which each duration from 1 to 400 ms is as frequent."""
    assert (answer["requests"], answer["expired"], answer["rejected"]) == (5000, 0, {})
    assert {row["timeout_ms"]: row["expired"] for row in answer["what_if"]} == {
        100: sum(int(took) > 100 for _, took, _ in ROWS),
        390: sum(int(took) > 390 for _, took, _ in ROWS),
        1000: 0,
    }
    spans = [(int(at), int(at) + int(took)) for at, took, pod in ROWS if pod == "p0"]
    # None of those that arrived 30 requests before is still pending.
    pending = [
        sum(ended > at for _, ended in spans[max(0, number - 30) : number + 1])
        for number, (at, _) in enumerate(spans)
    ]
    assert answer["what_if"][-1]["peak_pending"] == max(pending)
    assert answer["recommended_timeout_ms"] == 1000
    return answer


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet", "log"])
def test_files_of_all_formats_get_the_same_answer(
    purgatory: Purgatory, tmp_path: Path, kind: str
) -> None:
    options = ("--log-format", "[$at] $pod $took") if kind == "log" else ()
    ran = purgatory(
        "quick", write_calls(tmp_path, kind), *MAPPING, *options,
        "--time-unit", "ms", "--timeouts", "100,390", "--json",
    )  # fmt: skip
    assert (ran.code, "calls." in ran.err) == (0, True)
    checked(json.loads(ran.out))


def test_nothing_of_spark_is_imported(tmp_path: Path) -> None:
    source = write_calls(tmp_path, "csv")
    arguments = ("quick", str(source), *MAPPING, "--time-unit", "ms", "--timeouts", "100,390")
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    checked(json.loads(ran.stdout))


def test_public_names_are_those_of_their_modules() -> None:
    assert sorted(purgatory_spark._MODULES) == sorted(purgatory_spark.__all__)
    for name in purgatory_spark.__all__:
        assert getattr(purgatory_spark, name).__name__ == name
        assert name in dir(purgatory_spark)
    with pytest.raises(AttributeError, match="has no attribute 'Traces'"):
        _ = purgatory_spark.Traces  # type: ignore[attr-defined]


def test_rejected_rows_are_counted(purgatory: Purgatory, tmp_path: Path) -> None:
    lines = ["at,took,pod", *map(",".join, ROWS[:400]), "soon,1,p0", "5", "5,-1,p0"]
    source = write_lines(tmp_path / "calls.csv", lines)
    ran = purgatory("quick", source, *MAPPING, "--time-unit", "ms")
    assert ran.code == 0
    for reason in ("unparsable at", "malformed row", "end before start"):
        assert f"rejected 1: {reason}" in ran.out
    assert "400 requests" in ran.out


CSV_LINES = [b"%d,%d,p%d" % (1_700_000_000_000 + row, row + 1, row % 3) for row in range(40)]


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        (CSV_LINES, b"\n"),
        ([*CSV_LINES, *[b""] * 300, *CSV_LINES, *[b""] * 300], b"\n"),
        (CSV_LINES, b"\r\n"),
        (CSV_LINES, b"\r"),
        ([*CSV_LINES, b"\xff,1,p0", b"5", b"5,1,p\xc3\xa4", *CSV_LINES], b"\n"),
        ([*CSV_LINES, b'1700000000000,7,"p\n5"', b"  ", *CSV_LINES], b"\n"),
        ([*CSV_LINES, b'1700000000000,7,"p\n\n\n\n\n\n\n\n\n\n\n\n\n5"', *CSV_LINES], b"\n"),
        ([*CSV_LINES, b'1700000000000,7,"p', *CSV_LINES], b"\n"),
    ],
    ids=["plain", "blank", "crlf", "cr", "bad", "newline", "newlines", "open"],
)
def test_parts_of_a_file_are_read_as_the_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[bytes], end: bytes
) -> None:
    (tmp_path / "calls.csv").write_bytes(end.join([b'at,took,"pod"', *lines]))
    mapping = {"arrived_at": "at", "service_ms": "took", "host": "pod"}
    settings = ImportSettings(columns=mapping, time_unit="ms")
    found = []
    for size in (2**20, 100):
        monkeypatch.setattr(table_files, "_BLOCK_BYTES", size)
        trace = QuickTrace(str(tmp_path / "calls.csv"), settings)
        assert trace.mapped is not None
        found.append((trace.rejected, trace.mapped.rows, trace.mapped.requests.to_pylist()))
    assert found[0] == found[1]
    assert len(found[0][2]) >= len(CSV_LINES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("calls.csv",), "map fields to its columns, for example --map arrived_at="),
        (("calls.csv", "--map", "arrived_at=x", "--map", "ended_at=at"), "missing columns: x"),
        (("calls.csv", "--map", "arrived_at=at", "--map", "span_id=took"), "use `purgatory run`"),
        (("calls.orc", *MAPPING), "not orc; use `purgatory run`"),
        (("calls.jsonl", *MAPPING), "calls.jsonl: missing columns: took, pod; the file has at"),
        (("torn.csv.gz", *MAPPING), "torn.csv.gz: can't be read as CSV text"),
        (("torn.parquet", *MAPPING), "torn.parquet: can't be read as Parquet"),
        (("none.csv", *MAPPING), "none.csv: no such file or folder"),
        (("empty.csv", *MAPPING), "the trace has no requests; rejected: 1 unparsable at"),
        (("bare.csv", *MAPPING), "bare.csv: the trace has no requests\n"),
    ],
)
def test_what_can_not_be_read_is_named(
    purgatory: Purgatory, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_calls(tmp_path, "csv")
    (tmp_path / "calls.orc").write_bytes(b"ORC")
    (tmp_path / "calls.jsonl").write_text('{"at": 1}\n')
    (tmp_path / "empty.csv").write_text("at,took,pod\nx,1,p\n")
    (tmp_path / "bare.csv").write_text("at,took,pod\n")
    torn = gzip.compress(b"at,took,pod\n" + bytes(range(256)) * 999)
    (tmp_path / "torn.csv.gz").write_bytes(torn[: len(torn) // 2])
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    ran = purgatory("quick", tmp_path / arguments[0], *arguments[1:])
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_one_of_equal_requests_counts_in_any_order(tmp_path: Path) -> None:
    rows = [f"a,{1_700_000_000_000},{took},p{key}" for took, key in ((5, 1), (5, 2), (7, 3))]
    mapping = {"request_id": "id", "arrived_at": "at", "service_ms": "took", "watch_keys": "key"}
    settings = ImportSettings(columns=mapping, time_unit="ms")
    kept = []
    for order in permutations(rows):
        source = write_lines(tmp_path / "calls.csv", ["id,at,took,key", *order])
        trace = QuickTrace(str(source), settings)
        assert trace.rejected == {"repeated request": 2}
        assert trace.mapped is not None
        kept += trace.mapped.requests.column("watch_keys").to_pylist()
    assert kept == [kept[0]] * 6


@pytest.mark.parametrize(
    "times",
    [
        ["2026-03-02T09:00:00Z", "2026-03-02 10:00:00.5+01:00"],
        ["2026-03-02T09:00:00", "2026-03-02 09:00:00.5"],
    ],
    ids=["zoned", "local"],
)
def test_times_of_one_form_are_converted_alike_together_and_alone(times: list[str]) -> None:
    # Arrow converts the first ones of these, which the rules of a trace do not accept.
    others = ["2026-03-02T09:00Z", "0000-03-02T09:00:00+01", "2026-02-30T09:00:00Z", "soon"]
    others += ["2026-03-02 24:00:00", "2026-03-02 9:00:00:00"]
    us = [1_772_442_000_000_000, 1_772_442_000_500_000]
    assert times_us(pa.array(times), "iso", "at").to_pylist() == us
    for other in others:
        assert times_us(pa.array([other]), "iso", "at").to_pylist() == [None]
        assert times_us(pa.array([*times, other]), "iso", "at").to_pylist() == [*us, None]


@pytest.mark.parametrize("is_dictionary", [False, True], ids=["text", "dictionary"])
def test_names_with_few_values_are_checked(tmp_path: Path, is_dictionary: bool) -> None:
    names = pa.array(["a", None, "", " ", "\ufffd", "ä ", "a"])
    columns = {
        "pod": names.dictionary_encode() if is_dictionary else names,
        "at": pa.repeat(1_700_000_000_000, len(names)),
        "took": pa.repeat(0.25, len(names)),
    }
    pq.write_table(pa.table(columns), tmp_path / "calls.parquet")
    mapping = {"host": "pod", "arrived_at": "at", "service_s": "took"}
    settings = ImportSettings(columns=mapping, time_unit="ms")
    trace = QuickTrace(str(tmp_path / "calls.parquet"), settings)
    assert trace.rejected == {"null pod": 1, "empty pod": 2, f"pod {NOT_UTF8}": 1}
    assert trace.mapped is not None
    assert trace.mapped.requests.column("host").to_pylist() == ["a", "ä ", "a"]


def ended(shards: list[EndedRequests]) -> list[tuple[int, ...]]:
    columns = ("arrived_us", "deadline_us", "satisfied_us")
    return sorted(
        row
        for shard in shards
        for row in zip(*(getattr(shard, name).tolist() for name in columns), strict=True)
    )


def test_own_answers_end_requests_as_events_on_their_keys_do() -> None:
    ends = [None, 2_000, 9_999_000, 1_000]
    cases = list(product(AGGREGATES, (-1.0, 0.0, 0.5, 1.0, 1.5, inf), ("all", "any", "1"), ends))
    aggregates, thresholds, quantifiers, ended_at = zip(*cases, strict=True)
    size = len(cases)
    requests = {
        "host": [f"h{row % 3}" for row in range(size)],
        "request_id": list(map(str, range(size))),
        "request_type": pa.nulls(size, pa.string()),
        "arrived_at": pa.repeat(1_000, size),
        "timeout_ms": pa.array([row % 9 for row in range(size)], pa.int32()),
        "watch_keys": [[str(row)] for row in range(size)],
        "aggregate": aggregates,
        "threshold": thresholds,
        "quantifier": quantifiers,
        "ended_at": pa.array(ended_at, pa.int64()),
    }
    table = pa.table(requests)
    answered = table.filter(table.column("ended_at").is_valid())
    events = pa.table(
        {
            "host": answered.column("host"),
            "key": answered.column("request_id"),
            "occurred_at": answered.column("ended_at"),
            "amount": pa.repeat(1.0, answered.num_rows),
        }
    )
    with_keys = table.drop_columns(["ended_at"]).to_batches()
    assert ended(end_own_requests(table)) == ended(
        end_requests(with_keys, events.to_batches(), size)
    )

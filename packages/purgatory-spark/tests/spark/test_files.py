"""Tests of reading CSV and Parquet files as raw rows."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.table_source import read_rows
from purgatory_spark._spark.csv_files import csv_header
from purgatory_spark._spark.file_columns import with_row_text
from purgatory_spark._spark.files import (
    CORRUPT,
    POSITION,
    RAW,
    SOURCE,
    spark_read_path,
    trace_files,
)
from purgatory_spark._spark.parquet_files import parquet_schema
from tests.spark.trace_folders import rows_of, write_lines

ODD_NAMES = [
    "a b.csv",
    "a%20b.csv",
    "a+b.csv",
    "[x].csv",
    "{y,z}.csv",
    "q?*.csv",
    "ünï#1.csv",
    "back\\slash.csv",
]


def test_file_names_are_not_patterns(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "[old] {runs} *"
    for number, name in enumerate(ODD_NAMES):
        write_lines(folder / name, ["n", str(number)])
    # If "[x].csv" were a pattern, it would match this file.
    write_lines(folder / "x.csv", ["n", "not listed"])
    found = rows_of(read_rows(spark, [folder / name for name in ODD_NAMES], ["n"]), "n", SOURCE)
    assert [(row["n"], row[SOURCE]) for row in found] == [
        (str(number), name) for number, name in enumerate(ODD_NAMES)
    ]


def test_columns_may_have_any_names(spark: SparkSession, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "odd.csv", [",a,A,_metadata,_corrupt,_source,`b`.c", "0,1,2,3,4,5,6"]
    )
    table = with_row_text(read_rows(spark, [file], ["a", "_source", "`b`.c", "a"]))
    assert rows_of(table.drop(POSITION)) == [
        {
            "a": "1",
            "_source": "5",
            "`b`.c": "6",
            SOURCE: "odd.csv",
            RAW: (
                '{"":"0","a":"1","A":"2","_metadata":"3","_corrupt":"4","_source":"5","`b`.c":"6"}'
            ),
            CORRUPT: None,
        }
    ]


def test_malformed_rows_are_kept_as_text(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "mixed.csv"
    file.write_bytes(
        b'\xef\xbb\xbf\r\n\r\n"n","m"\r\n1,"a ""b"", c"\r\n\r\n2\r3,x,y\n\x00\xff\n'
        b'"4,\n5,"two\nlines"\n6,\xfe\n'
    )
    rows = rows_of(read_rows(spark, [file], ["n", "m"]))
    # The last one has a quote that was opened in the line before.
    assert sorted(row[CORRUPT] for row in rows if row[CORRUPT] is not None) == [
        "\x00�",
        '"4,',
        "2",
        "3,x,y",
        'lines"',
    ]
    good = {row["n"]: row["m"] for row in rows if row[CORRUPT] is None}
    assert good == {"1": 'a "b", c', "5": "two", "6": "�"}


def test_files_may_differ_in_compression_and_order_of_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = '\ufeffat,"took, ms"\r\n"1","2"\r\n3,4\n'.encode()
    contents = {
        "plain.csv": text,
        "packed.csv.gz": gzip.compress(text),
        "packed.csv.bz2": bz2.compress(text),
        "reordered.csv": b'more,"took, ms",at\nx,4,3\n,2,1\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    table = read_rows(spark, trace_files(tmp_path), ["at", "took, ms"])
    rows = rows_of(table, "at", "took, ms", CORRUPT, SOURCE)
    assert {tuple(row.values()) for row in rows} == {
        (at, took, None, name) for name in contents for at, took in (("1", "2"), ("3", "4"))
    }
    assert len(rows) == 8


@pytest.mark.parametrize("name", ["_hidden.csv", ".hidden.csv.gz"])
def test_hidden_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"a\n1\n")
    with pytest.raises(TraceFormatError, match=rf"{name}: Spark skips files .*; rename the file"):
        trace_files(tmp_path / name)


def test_file_name_with_a_colon_is_an_error(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.csv", ["a"])
    write_lines(tmp_path / "05:27.csv", ["a"])
    with pytest.raises(
        TraceFormatError, match=r"05:27\.csv: .*\(Hadoop\) can't read files with ':' in their names"
    ):
        trace_files(tmp_path)


def test_csv_files_of_a_folder_take_precedence_over_parquet_files(tmp_path: Path) -> None:
    for name in ("b.csv.gz", "a.csv", "c.csv.bz2", "d.parquet", "_SUCCESS", ".e.csv", "LICENSE"):
        (tmp_path / name).touch()
    (tmp_path / "folder.csv").mkdir()
    assert [file.name for file in trace_files(tmp_path)] == ["a.csv", "b.csv.gz", "c.csv.bz2"]
    for name in ("b.csv.gz", "a.csv", "c.csv.bz2"):
        (tmp_path / name).unlink()
    assert [file.name for file in trace_files(tmp_path)] == ["d.parquet"]
    (tmp_path / "d.parquet").unlink()
    with pytest.raises(
        TraceFormatError,
        match=r"the folder has no file whose name ends with \.csv, .*\.parquet, .*\.orc",
    ):
        trace_files(tmp_path)


@pytest.mark.parametrize("name", ["LICENSE", "table.txt", "table.csv.zip"])
def test_file_of_another_type_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(TraceFormatError, match=rf"{name}: the name ends with none of \.csv"):
        trace_files(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("utf16.csv", "a,b\n1,2\n".encode("utf-16")),
        ("nul.csv", b"a\x00,b\n"),
        ("notgz.csv.gz", b"a,b\n"),
        ("cut.csv.bz2", bz2.compress(b"a,b\n" * 1000)[:20]),
        ("long.csv", b"a" * 200_000),
    ],
)
def test_unreadable_header_is_an_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceFormatError, match=rf"{name}: can't be read as CSV text \("):
        csv_header(tmp_path / name)


def test_parquet_files_must_have_the_same_columns(spark: SparkSession, tmp_path: Path) -> None:
    one, same, typed, lacking, junk = (
        tmp_path / f"{name}.parquet" for name in ("one", "same", "typed", "lacking", "junk")
    )
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), one)
    pq.write_table(
        pa.table({"b": [2], "a": pa.array(["y"], pa.large_string()).dictionary_encode()}), same
    )
    pq.write_table(pa.table({"a": ["z"], "b": ["3"]}), typed)
    pq.write_table(pa.table({"a": ["z"]}), lacking)
    junk.write_text("PAR1")
    assert [(row["a"], row["b"]) for row in rows_of(read_rows(spark, [one, same], ["a", "b"]))] == [
        ("x", 1),
        ("y", 2),
    ]
    for file, message in [
        (typed, f"{typed}: column b is string, but int64 in {one}"),
        (lacking, f"{lacking}: missing columns: b; the file has a"),
        (junk, f"{junk}: can't be read as Parquet"),
    ]:
        with pytest.raises(TraceFormatError) as error:
            read_rows(spark, [one, file], ["a", "b"])
        assert str(error.value).startswith(message)
    with pytest.raises(TraceFormatError, match="can't be read as Parquet"):
        parquet_schema(junk)


def test_path_for_spark_is_absolute_and_literal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        spark_read_path(Path("a:b/[c]*?{d}\\.csv"))
        == f"file://{tmp_path}/a:b/\\[c\\]\\*\\?\\{{d\\}}\\\\.csv"
    )

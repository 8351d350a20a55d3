"""Spark's hash functions in Python, against Spark."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._spark.hashes import SEED, int_with_hash, xxhash64
from purgatory_spark._stream.packing import shard_labels

_LETTERS = "aZ0 \0éß€文😀"


def test_strings_have_the_hashes_that_spark_gives_them(spark: SparkSession) -> None:
    draw = random.Random(3)
    texts = ["".join(draw.choices(_LETTERS, k=size)) for size in [*range(140), *range(40)]]
    texts.append("long" * 5_000)
    draw.shuffle(texts)
    pairs = list(zip(texts, reversed(texts), strict=True))
    rows = [(number, *pair) for number, pair in enumerate(pairs)]
    hashed = (
        spark.createDataFrame(rows, "number int, first string, second string")
        .select("number", F.xxhash64("first").alias("one"), F.xxhash64("first", "second"))
        .orderBy("number")
        .collect()
    )
    # A slice, whose buffers begin before it and end after it.
    first = pa.array(["before", *texts, "after"]).slice(1, len(texts))
    ones = xxhash64(first, np.full(len(texts), SEED))
    assert ones.view(np.int64).tolist() == [row[1] for row in hashed]
    twos = xxhash64(pa.array(texts[::-1]), ones)
    assert twos.view(np.int64).tolist() == [row[2] for row in hashed]
    assert xxhash64(pa.array([], pa.string()), np.zeros(0, np.uint64)).tolist() == []
    for text, one in zip(texts, ones, strict=True):
        assert xxhash64(pa.array([text]), np.full(1, SEED)).tolist() == [one]


def test_integer_with_a_hash_is_the_one_that_spark_hashes_to_it(spark: SparkSession) -> None:
    draw = random.Random(4)
    wanted = [*range(300), 65_535, 2**31 - 1, -(2**31), -1]
    wanted += [draw.randrange(-(2**31), 2**31) for _ in range(300)]
    rows = [(number, int_with_hash(number)) for number in wanted]
    hashed = spark.createDataFrame(rows, "wanted int, found int").select("wanted", F.hash("found"))
    assert [tuple(row) for row in hashed.collect()] == [(number, number) for number in wanted]


def test_shards_go_round_the_partitions(spark: SparkSession) -> None:
    for shards, partitions in ((2, 2), (4, 4), (8, 2), (16, 4), (16, 200), (7, 3)):
        rows = [(label,) for label in shard_labels(shards, even=True)]
        counts = (
            spark.createDataFrame(rows, "label int")
            .groupBy(F.pmod(F.hash("label"), F.lit(partitions)))
            .count()
            .collect()
        )
        sizes = [row["count"] for row in counts]
        assert len(sizes) == min(shards, partitions)
        assert max(sizes) - min(sizes) <= 1
    assert shard_labels(3, even=False) == (0, 1, 2)
    assert all(not 0 <= label < 65_536 for label in shard_labels(65_536, even=True))

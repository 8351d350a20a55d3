"""kcat: librdkafka, as an older Debian has it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kcat import Kcat
from tests.broker.parity.raw import RawClient

#: A fetch at the end of a log, which `-e` waits for, otherwise takes half a second.
QUICK = ("-X", "fetch.wait.max.ms=10")


@pytest.fixture
def made_topic(bootstrap: str, topic: str) -> str:
    """Make a topic and return its name; kcat asks for a missing one again after a second.

    In `test_messages_are_produced_with_these_acks` it does so.
    """
    client = RawClient(bootstrap.split(",")[0])
    wanted = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    answer = client.call("CreateTopics", 5, topics=[wanted], timeout_ms=10_000, validate_only=False)
    client.close()
    assert answer.topics[0].error_code == 0, answer
    return topic


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_are_produced_with_these_acks(
    kcat: Kcat, bootstrap: str, topic: str, acks: str
) -> None:
    """And come back with their keys and headers."""
    kcat.run(
        "-b",
        bootstrap,
        "-P",
        "-t",
        topic,
        "-p",
        "0",
        "-K",
        ":",
        "-H",
        "one=1",
        "-X",
        f"acks={acks}",
        stdin=b"k1:a\nk2:b\n",
    )
    printed = kcat.run(
        "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-c", "2", "-f", "%o %k %s %h\n"
    )
    assert printed == b"0 k1 a one=1\n1 k2 b one=1\n"


def test_an_idempotent_producer_keeps_the_order(
    kcat: Kcat, bootstrap: str, made_topic: str
) -> None:
    """In many small batches that are on their way at once."""
    lines = b"".join(b"%d\n" % number for number in range(300))
    settings = ["-X", "enable.idempotence=true", "-X", "batch.num.messages=5", "-X", "linger.ms=0"]
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, "-p", "0", *settings, stdin=lines)
    assert (
        kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "beginning", "-e", *QUICK) == lines
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_this_codec(
    kcat: Kcat, bootstrap: str, made_topic: str, codec: str
) -> None:
    """And come back as they were."""
    lines = b"".join(b"%d " % number * 50 + b"\n" for number in range(20))
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, "-z", codec, stdin=lines)
    assert (
        kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "beginning", "-e", *QUICK) == lines
    )


def test_reading_starts_where_it_is_told_to(kcat: Kcat, bootstrap: str, made_topic: str) -> None:
    """At an offset, or so many before the end."""
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"a\nb\nc\n")
    assert kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "1", "-e", *QUICK) == b"b\nc\n"
    assert kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "-1", "-e", *QUICK) == b"c\n"
    assert kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "end", "-e", *QUICK) == b""
    assert (
        kcat.run("-b", bootstrap, "-C", "-t", made_topic, "-o", "s@1000", "-e", *QUICK)
        == b"a\nb\nc\n"
    )
    assert (
        kcat.run("-b", bootstrap, "-Q", "-t", f"{made_topic}:0:1000")
        == f"{made_topic} [0] offset 0\n".encode()
    )


def test_a_reader_at_the_end_is_given_what_comes(
    kcat: Kcat, bootstrap: str, made_topic: str
) -> None:
    """Without being asked again."""
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"first\n")
    with kcat.start(
        "-b",
        bootstrap,
        "-C",
        "-u",
        "-t",
        made_topic,
        "-o",
        "beginning",
        "-c",
        "2",
        "-X",
        "fetch.wait.max.ms=50000",
    ) as reader:
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == b"first\n"
            kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"late\n")
            assert reader.communicate(timeout=TIME_LIMIT)[0] == b"late\n"
        finally:
            reader.kill()


def test_a_group_goes_on_where_it_was(kcat: Kcat, bootstrap: str, made_topic: str) -> None:
    """One member after the other."""
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"a\nb\n")
    settings = ["-X", "auto.offset.reset=earliest"]
    assert (
        kcat.run("-b", bootstrap, "-G", made_topic, "-c", "2", *settings, made_topic) == b"a\nb\n"
    )
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"c\n")
    assert kcat.run("-b", bootstrap, "-G", made_topic, "-c", "1", *settings, made_topic) == b"c\n"


def test_the_cluster_and_its_topics_are_listed(kcat: Kcat, bootstrap: str, made_topic: str) -> None:
    """As JSON."""
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"a\n")
    told = json.loads(kcat.run("-b", bootstrap, "-L", "-J", "-t", made_topic))
    assert sorted(broker["name"] for broker in told["brokers"]) == sorted(bootstrap.split(","))
    assert [each["topic"] for each in told["topics"]] == [made_topic]
    assert len(told["topics"][0]["partitions"]) == 1


def test_an_unknown_partition_is_refused(kcat: Kcat, bootstrap: str, made_topic: str) -> None:
    """With a complaint, and soon."""
    kcat.run("-b", bootstrap, "-P", "-t", made_topic, stdin=b"a\n")
    settings = ["-X", "message.timeout.ms=5000", "-X", "topic.metadata.propagation.max.ms=100"]
    with kcat.start("-b", bootstrap, "-P", "-t", made_topic, "-p", "9", *settings) as writer:
        try:
            said = writer.communicate(b"x\n", TIME_LIMIT)[1]
        except subprocess.TimeoutExpired:
            writer.kill()
            raise
    assert b"Unknown partition" in said
    assert writer.returncode != 0

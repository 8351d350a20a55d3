"""kcat, which uses librdkafka, against the broker."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kcat import Kcat
from tests.broker.parity.raw import RawClient

#: With `-e` kcat waits for a fetch at the log's end, which takes half a second by default.
QUICK = ("-X", "fetch.wait.max.ms=10")


@pytest.fixture
def created_topic(bootstrap_servers: str, topic: str) -> str:
    """Create a topic, and return its name; kcat retries an unknown topic only after a second."""
    client = RawClient(bootstrap_servers.split(",")[0])
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
def test_messages_are_produced_with_each_acks(
    kcat: Kcat, bootstrap_servers: str, topic: str, acks: str
) -> None:
    kcat.run(
        "-b",
        bootstrap_servers,
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
        "-b",
        bootstrap_servers,
        "-C",
        "-t",
        topic,
        "-o",
        "beginning",
        "-c",
        "2",
        "-f",
        "%o %k %s %h\n",
    )
    assert printed == b"0 k1 a one=1\n1 k2 b one=1\n"


def test_idempotent_producer_keeps_the_order(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    lines = b"".join(b"%d\n" % number for number in range(300))
    settings = ["-X", "enable.idempotence=true", "-X", "batch.num.messages=5", "-X", "linger.ms=0"]
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, "-p", "0", *settings, stdin=lines)
    assert (
        kcat.run(
            "-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "beginning", "-e", *QUICK
        )
        == lines
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_each_codec(
    kcat: Kcat, bootstrap_servers: str, created_topic: str, codec: str
) -> None:
    lines = b"".join(b"%d " % number * 50 + b"\n" for number in range(20))
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, "-z", codec, stdin=lines)
    assert (
        kcat.run(
            "-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "beginning", "-e", *QUICK
        )
        == lines
    )


def test_consumer_seeks_to_an_offset(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"a\nb\nc\n")
    assert (
        kcat.run("-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "1", "-e", *QUICK)
        == b"b\nc\n"
    )
    assert (
        kcat.run("-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "-1", "-e", *QUICK)
        == b"c\n"
    )
    assert (
        kcat.run("-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "end", "-e", *QUICK)
        == b""
    )
    assert (
        kcat.run("-b", bootstrap_servers, "-C", "-t", created_topic, "-o", "s@1000", "-e", *QUICK)
        == b"a\nb\nc\n"
    )
    assert (
        kcat.run("-b", bootstrap_servers, "-Q", "-t", f"{created_topic}:0:1000")
        == f"{created_topic} [0] offset 0\n".encode()
    )


def test_consumer_at_the_end_gets_new_messages(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"first\n")
    with kcat.start(
        "-b",
        bootstrap_servers,
        "-C",
        "-u",
        "-t",
        created_topic,
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
            kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"late\n")
            assert reader.communicate(timeout=TIME_LIMIT)[0] == b"late\n"
        finally:
            reader.kill()


def test_group_resumes_from_its_committed_offsets(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"a\nb\n")
    settings = ["-X", "auto.offset.reset=earliest"]
    assert (
        kcat.run("-b", bootstrap_servers, "-G", created_topic, "-c", "2", *settings, created_topic)
        == b"a\nb\n"
    )
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"c\n")
    assert (
        kcat.run("-b", bootstrap_servers, "-G", created_topic, "-c", "1", *settings, created_topic)
        == b"c\n"
    )


def test_cluster_and_topics_are_listed(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"a\n")
    metadata = json.loads(kcat.run("-b", bootstrap_servers, "-L", "-J", "-t", created_topic))
    assert sorted(broker["name"] for broker in metadata["brokers"]) == sorted(
        bootstrap_servers.split(",")
    )
    assert [each["topic"] for each in metadata["topics"]] == [created_topic]
    assert len(metadata["topics"][0]["partitions"]) == 1


def test_unknown_partition_is_refused(
    kcat: Kcat, bootstrap_servers: str, created_topic: str
) -> None:
    kcat.run("-b", bootstrap_servers, "-P", "-t", created_topic, stdin=b"a\n")
    settings = ["-X", "message.timeout.ms=5000", "-X", "topic.metadata.propagation.max.ms=100"]
    with kcat.start(
        "-b", bootstrap_servers, "-P", "-t", created_topic, "-p", "9", *settings
    ) as writer:
        try:
            said = writer.communicate(b"x\n", TIME_LIMIT)[1]
        except subprocess.TimeoutExpired:
            writer.kill()
            raise
    assert b"Unknown partition" in said
    assert writer.returncode != 0

"""The fixtures in the environment of a user, who has neither the command nor our kafka-python."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.builds import ROOT, build_wheel, copy_package, installed, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("packaging")]

#: What comes with `purgatory-broker[cli]` alone.
OF_THE_COMMAND = {
    "cyclopts",
    "docstring_parser",
    "docstring-parser",
    "prometheus_client",
    "prometheus-client",
    "purgatory-command-line",
    "rich",
}
#: A suite of a user, by any kafka-python: the consumer and the admin client of the old versions
#: are others than ours.
SUITE = """
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError, TopicAlreadyExistsError
import kafka
import pytest


def test_version():
    assert kafka.__version__ == "{version}"


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_records_are_read(kafka_cluster, compression):
    servers = kafka_cluster.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic("orders", 2, 1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("orders", 2, 1)])
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", compression_type=compression)
    sent = [producer.send("orders", b"%d" % n, key=b"k", headers=[("h", b"x")]) for n in range(50)]
    assert all(each.get(10).offset >= 0 for each in sent)
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=10_000,
    )
    found = []
    for record in consumer:
        found.append(int(record.value))
        if len(found) == 50:
            break
    assert found == list(range(50))
    consumer.commit()
    kafka_cluster.wait_for(lag=("readers", "orders", 0))
    consumer.close()
    assert "readers" in [group for group, *_ in admin.list_consumer_groups()]
    producer.close()
    admin.close()


def test_producer_survives_an_election(make_kafka_cluster):
    cluster = make_kafka_cluster(nodes=3, min_insync_replicas=2)
    cluster.create_topic("orders")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=20)
    producer.send("orders", b"one").get(10)
    cluster.kill(cluster.describe_topic("orders")[0]["leader"])
    producer.send("orders", b"two").get(30)
    fault = cluster.inject_request_error("Produce", "NOT_LEADER_OR_FOLLOWER")
    producer.send("orders", b"three").get(30)
    cluster.wait_for(fault=(fault, 1))
    assert [record.value for record in cluster.records("orders")] == [b"one", b"two", b"three"]
    producer.close()
"""
#: Without any client.
BARE = """
import pytest
import socket


def test_cluster(kafka_cluster, kafka_topic, empty_kafka_cluster):
    host, port = kafka_cluster.bootstrap_servers.split(":")
    socket.create_connection((host, int(port)), 10).close()
    assert kafka_topic


def test_process():
    from purgatory_broker import ClusterProcess
    with ClusterProcess(nodes=2) as cluster:
        cluster.create_topic("orders")
        assert cluster.records("orders") == []
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for package in ("request-purgatory", "purgatory-broker"):
        checkout = copy_package(package, folder / "sources" / package)
        build_wheel(checkout, folder, REQUEST_PURGATORY_BUILD="interpreted")
    return folder


def environment(folder: Path, wheels: Path, *requirements: str) -> Path:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install")
    run(
        *(*pip, "--find-links", str(wheels), "purgatory-broker", "pytest", *requirements),
        folder=ROOT,
        PIP_CONSTRAINT=str(constraints_without(requirements, folder.with_suffix(".txt"))),
    )
    return python


def constraints_without(requirements: Sequence[str], copy: Path) -> Path:
    """Copy the constraints of this run, but for packages of which another version is wanted."""
    given = os.environ.get("PIP_CONSTRAINT")
    lines = Path(given).read_text().splitlines() if given else []
    others = {each.partition("==")[0] for each in requirements}
    copy.write_text("".join(f"{line}\n" for line in lines if line.partition("==")[0] not in others))
    return copy


@pytest.mark.parametrize("version", ["2.0.2", "2.2.21", "2.3.3"])
def test_fixtures_work_beside_an_old_kafka_python(
    version: str, wheels: Path, tmp_path: Path
) -> None:
    if version == "2.0.2" and sys.version_info >= (3, 12):
        pytest.skip("kafka-python 2.0.2 can't be imported since Python 3.12")
    python = environment(tmp_path / "environment", wheels, f"kafka-python=={version}")
    assert installed(python) & OF_THE_COMMAND == set()
    (tmp_path / "test_orders.py").write_text(SUITE.replace("{version}", version))
    assert "4 passed" in run(str(python), "-m", "pytest", "-q", folder=tmp_path)


def test_fixtures_work_without_the_command_which_says_what_is_missing(
    wheels: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "environment", wheels)
    (tmp_path / "test_bare.py").write_text(BARE)
    assert "2 passed" in run(str(python), "-m", "pytest", "-q", folder=tmp_path)
    command = f"{python.parent / 'purgatory-broker'} --version; echo $?"
    *_, message, code = run("sh", "-c", command, folder=tmp_path).splitlines()
    assert message == (
        "purgatory-broker: the package cyclopts is missing; pip install 'purgatory-broker[cli]' "
        "brings what the command needs"
    )
    assert code == "4"

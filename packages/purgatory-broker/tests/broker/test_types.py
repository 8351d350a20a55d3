"""What mypy says of code that uses a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_CODE = """
from purgatory_broker import Cluster, ClusterFactory, ClusterProcess
from purgatory_broker.cluster.snapshots import TopicRecord

with Cluster(nodes=3, min_insync_replicas=2) as cluster, ClusterProcess(nodes=2) as other:
    cluster.create_topic("orders", partitions=2)
    fault: int = cluster.inject_request_error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders")
    cluster.wait_for(fault=(fault, 1), records=("orders", 2), isr=("orders", 0, [0, 1]))
    found: list[TopicRecord] = other.records("orders", offset=-5, limit=10)
    cluster.reset()
    Cluster(nodse=2)  # call-arg
    ClusterProcess(nodse=2)  # call-arg
    Cluster(min_insync_replicas="2")  # arg-type
    Cluster(num_partitions=2.5)  # arg-type
    cluster.create_topic("orders", partition=2)  # call-arg
    cluster.wait_for(fault=fault)  # arg-type
    other.records("orders", limit="10")  # arg-type

def test_orders(make_kafka_cluster: ClusterFactory) -> None:
    make_kafka_cluster(3, min_insync_replicas=2).create_topic("orders")
    make_kafka_cluster(nodes=3, record="trace")
    make_kafka_cluster(nodse=2)  # call-arg
    make_kafka_cluster(num_partitions=2.5)  # arg-type
    make_kafka_cluster().create_topic("orders", partition=2)  # call-arg
"""


@pytest.mark.slow
def test_mypy_refuses_misspelt_and_mistyped_arguments(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "uses_a_cluster.py"
    file.write_text(_CODE)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(file)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    expected = {
        f"{number}: {line.rpartition('# ')[2]}"
        for number, line in enumerate(_CODE.splitlines(), 1)
        if "# " in line
    }
    reported = {
        f"{line.split(':')[1]}: {line.rpartition('[')[2].rstrip(']')}"
        for line in ran.stdout.splitlines()
        if ": error: " in line
    }
    assert reported == expected, ran.stdout + ran.stderr

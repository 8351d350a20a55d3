"""A registry on its cluster: where it is stored, and what becomes of it."""

from __future__ import annotations

import json
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterError, ClusterProcess
from purgatory_broker.cluster.cluster_client import ClusterClient
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.log.batches import batch
from tests.broker.raw_requests import leader_client

TIME_LIMIT = 30.0


def get(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/{path}", timeout=TIME_LIMIT) as response:
        return json.load(response)


def register(url: str, subject: str, schema: str = '"int"') -> Any:
    body = json.dumps({"schema": schema}).encode()
    with urllib.request.urlopen(
        f"{url}/subjects/{subject}/versions", body, timeout=TIME_LIMIT
    ) as response:
        return json.load(response)["id"]


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_registry_is_started_once(kind: type[ClusterClient]) -> None:
    with kind() as cluster:
        url = cluster.start_schema_registry()
        assert cluster.start_schema_registry() == url
        assert register(url, "s") == 1
        assert get(url, "subjects") == ["s"]
    with pytest.raises(OSError, match=r"refused|reset"):
        get(url, "subjects")


def test_records_are_those_of_confluents(cluster: Cluster) -> None:
    url = cluster.start_schema_registry()
    register(url, "s")
    (record,) = cluster.records("_schemas")
    assert json.loads(record.key or b"") == {
        "keytype": "SCHEMA",
        "subject": "s",
        "version": 1,
        "magic": 1,
    }
    assert json.loads(record.value or b"") == {
        "subject": "s",
        "version": 1,
        "id": 1,
        "schema": '"int"',
        "deleted": False,
    }
    assert len(cluster.describe_topic("_schemas")) == 1


def test_schemas_survive_a_restart_of_the_cluster(tmp_path: Path) -> None:
    for number in (1, 2):
        with Cluster(data_dir=tmp_path) as cluster:
            url = cluster.start_schema_registry()
            assert register(url, f"s{number}", json.dumps(f"{'int' if number == 1 else 'long'}"))
            assert get(url, "subjects") == ["s1", "s2"][:number]
            assert get(url, f"subjects/s{number}/versions/1")["id"] == number


def test_schemas_survive_a_killed_leader(cluster: Cluster) -> None:
    url = cluster.start_schema_registry()
    register(url, "s")
    cluster.kill(cluster.describe_topic("_schemas")[0]["leader"])
    assert get(url, "subjects") == ["s"]
    register(url, "t")
    assert get(url, "subjects") == ["s", "t"]


def test_registry_is_empty_after_a_reset(cluster: Cluster) -> None:
    url = cluster.start_schema_registry()
    register(url, "s")
    cluster.reset()
    assert get(url, "subjects") == []
    assert register(url, "t", '"long"') == 1


def test_registry_without_a_live_node_takes_no_schema(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purgatory_broker.cluster.schema_topic._RETRY_S", 0.1)
    url = cluster.start_schema_registry()
    register(url, "s")
    for node in range(3):
        cluster.kill(node)
    with pytest.raises(urllib.error.HTTPError) as raised:
        register(url, "t")
    answer = json.load(raised.value)
    assert (raised.value.status, answer["error_code"]) == (500, 50001)
    assert "LEADER_NOT_AVAILABLE" in answer["message"]
    assert get(url, "subjects") == ["s"]


def test_records_of_others_are_read(cluster: Cluster, connect: Connect) -> None:
    url = cluster.start_schema_registry()
    register(url, "s")
    client = leader_client(cluster, "_schemas", connect)
    key = {"keytype": "SCHEMA", "subject": "t", "version": 3, "magic": 1}
    value = {"subject": "t", "version": 3, "id": 9, "schema": '"long"'}
    deletion = {"keytype": "DELETE_SUBJECT", "subject": "s", "magic": 0}
    for record_key, record_value in (
        (key, json.dumps(value)),
        ("not of a registry", "{"),
        ({"keytype": "NOOP", "magic": 0}, None),
        (deletion, json.dumps({"subject": "s", "version": 1})),
    ):
        data = batch(
            None if record_value is None else record_value.encode(),
            key=json.dumps(record_key).encode(),
        )
        partitions = [{"index": 0, "records": data}]
        topics = [{"name": "_schemas", "partition_data": partitions}]
        client.call("Produce", 9, acks=-1, timeout_ms=5_000, topic_data=topics)
    assert get(url, "subjects") == ["t"]
    assert get(url, "subjects?deleted=true") == ["s", "t"]
    assert get(url, "subjects/t/versions/latest")["id"] == 9
    assert register(url, "u", '"string"') == 10


@pytest.mark.parametrize("port", [-1, 65_536])
def test_port_out_of_range_is_refused(cluster: Cluster, port: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"port must be between 0 and 65535, got {port}"):
        cluster.start_schema_registry(port=port)


def test_taken_port_is_refused(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match="in use"):
            cluster.start_schema_registry(port=port)
    assert cluster.start_schema_registry(port=port) == f"http://127.0.0.1:{port}"


def test_missing_package_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("purgatory_broker.schema_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "purgatory_broker.cluster.schema_topic", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ClusterError, match=r"needs uvicorn: pip install 'purgatory-broker\[schema"):
        cluster.start_schema_registry()

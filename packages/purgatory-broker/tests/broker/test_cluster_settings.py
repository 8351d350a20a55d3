"""The settings of a cluster: which are accepted, and why the others are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Unpack, get_type_hints

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterError,
    ClusterProcess,
    ClusterSettings,
)
from purgatory_broker.cluster_options import ClusterOptions
from purgatory_broker.settings import PATHS
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.raw_requests import produce


def test_data_directory_belongs_to_one_running_cluster(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("kept")
        for kind in (Cluster, ClusterProcess):
            with pytest.raises(
                (InvalidArgumentError, ClusterError),
                match="data_dir must be a directory that no other running cluster uses, got",
            ):
                kind(data_dir=tmp_path).start()
    with Cluster(data_dir=tmp_path) as cluster:
        assert cluster.describe_topic("kept")[0]["leader"] == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"port": 70_000}, "port must be at most 65535 for 1 nodes, got 70000"),
        (
            {"nodes": 2, "default_replication_factor": 3},
            "default_replication_factor must be between 1 and 2, the number of nodes, got 3",
        ),
        ({"message_max_bytes": 3}, "message_max_bytes must be at least 64, got 3"),
        ({"min_insync_replicas": "2"}, "min_insync_replicas must be a whole number .* got '2'"),
        ({"num_partitions": 2.5}, "num_partitions must be a whole number .* got 2.5"),
        ({"num_partitions": True}, "num_partitions must be a whole number .* got True"),
        ({"num_partitions": None}, r"must be a whole number \(an int\), got None"),
        ({"log_retention_ms": "7d"}, r"must be a whole number \(an int\) or None, got '7d'"),
        (
            {"auto_create_topics_enable": "false"},
            "auto_create_topics_enable must be True or False, got 'false'",
        ),
        ({"auto_create_topics_enable": 0}, "must be True or False, got 0"),
        ({"producer_byte_rate": "1e6"}, "must be a number or None, got '1e6'"),
        ({"producer_byte_rate": False}, "must be a number or None, got False"),
        ({"data_dir": 5}, "data_dir must be a Path or None, got 5"),
        ({"topic_defaults": [("retention.ms", "5")]}, "topic_defaults must be a dict, got"),
        ({"topic_defaults": {"retention.ms": 5}}, "topic_defaults must be a dict of str to str, g"),
        ({"topic_defaults": {"retention.ms": None}}, "must be a dict of str to str, got"),
        ({"topic_defaults": {5: "retention.ms"}}, "topic_defaults must be a dict of str to str, g"),
        ({"sasl_users": {5: "secret"}}, "must be a dict of str to str, got 'another value'"),
        ({"sasl_users": {"alice": 5}}, "must be a dict of str to str, got 'another value'"),
        ({"producer_byte_rate": math.nan}, "must be a finite number or None, got nan"),
        ({"consumer_byte_rate": math.inf}, "must be a finite number or None, got inf"),
        ({"consumer_byte_rate": -0.5}, "consumer_byte_rate must be at least 0, got -0.5"),
        ({"num_partitions": 10_001}, "num_partitions must be at most 10000, got 10001"),
        ({"offsets_topic_num_partitions": 10**9}, "must be at most 10000, got 1000000000"),
        ({"broker_session_timeout_ms": 2**31}, "must be at most 2147483647, got 2147483648"),
        ({"log_retention_ms": 2**63}, f"must be at most {2**63 - 1}, got {2**63}"),
        ({"log_retention_check_interval_ms": 0}, "must be at least 1, got 0"),
        ({"max_connections": 10**5_000}, "must be at most 2147483647, got 'a number of 16610 bits"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ClusterSettings(**settings)


def test_every_setting_refuses_values_of_other_types() -> None:
    wrong = [b"x", object(), [], 1.5, math.nan, True, 10**400]
    hints = get_type_hints(ClusterSettings)
    for name, hint in hints.items():
        for value in wrong:
            if (value is True and hint is bool) or (value == 1.5 and hint == float | None):
                continue
            with pytest.raises(InvalidArgumentError, match=f"^{name} must be "):
                ClusterSettings(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {}}, "settings must be a ClusterSettings or None, got {}"),
        ({"settings": 3}, "settings must be a ClusterSettings or None, got 3"),
        ({"recorder": "runs"}, "recorder must be a Recorder or None, got 'runs'"),
        ({"wall_ms": 5}, "wall_ms must be callable, got 5"),
    ],
)
def test_async_cluster_refuses_other_types(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        AsyncCluster(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_record_is_a_path(kind: type[Cluster]) -> None:
    with pytest.raises(InvalidArgumentError, match="record must be a Path, a str or None, got 5"):
        kind(record=5)  # type: ignore[arg-type]


def test_groups_and_transactional_ids_keep_their_partitions(tmp_path: Path) -> None:
    """The number of partitions of a topic that exists counts, and not the setting."""
    offsets: dict[str, int | None] = {}
    for partitions in (2, 8):
        with Cluster(
            data_dir=tmp_path,
            offsets_topic_num_partitions=partitions,
            transaction_state_log_num_partitions=partitions,
            group_initial_rebalance_delay_ms=0,
        ) as cluster:
            servers = cluster.bootstrap_servers
            if not offsets:
                cluster.create_topic("orders")
            for number in range(6):
                producer = Producer(
                    {"bootstrap.servers": servers, "transactional.id": f"id-{number}"}
                )
                producer.init_transactions(30)
                consumer = Consumer({"bootstrap.servers": servers, "group.id": f"group-{number}"})
                at = TopicPartition("orders", 0, number + 1)
                if partitions == 2:
                    consumer.commit(offsets=[at], asynchronous=False)
                (committed,) = consumer.committed([at], timeout=30)
                offsets[f"group-{number}"] = committed.offset
                consumer.close()
            epochs = [each.producer_epoch for each in cluster.transactions().values()]
            assert epochs == [0 if partitions == 2 else 1] * 6
    assert list(offsets.values()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
@pytest.mark.parametrize("name", ["data_dir", "record", "ssl_keystore_location"])
def test_empty_path_is_refused(kind: type[Cluster], name: str) -> None:
    """It would be the current directory."""
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a path that is not empty"):
        kind(**{name: ""})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess])
def test_cluster_stays_in_its_directories_when_the_program_leaves(
    kind: type[Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    pytest.importorskip("pyarrow")
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for directory in (first, second, third):
        directory.mkdir()
    with Cluster(data_dir=second / "data") as other:
        other.create_topic("precious")
    monkeypatch.chdir(first)
    cluster = kind(data_dir="data", record="trace")
    monkeypatch.chdir(third)
    with cluster:
        cluster.create_topic("orders")
        monkeypatch.chdir(second)
        cluster.create_topic("more")
        assert produce(connect(cluster.bootstrap_servers), "more", b"one").base_offset == 0
        cluster.reset()
        cluster.create_topic("last")
    assert sorted(path.name for path in first.iterdir()) == ["data", "trace"]
    assert (first / "data" / "node-0" / "last-0").is_dir()
    assert not list(third.iterdir())
    assert [path.name for path in second.iterdir()] == ["data"]
    assert (second / "data" / "node-0" / "precious-0").is_dir()
    with Cluster(data_dir="data") as other:
        assert len(other.describe_topic("precious")) == 1


def test_every_path_of_the_settings_is_absolute_without_following_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path)
    for name in PATHS:
        settings = ClusterSettings(**{name: Path("link/file")})  # type: ignore[arg-type]
        assert getattr(settings, name) == tmp_path / "link" / "file"


def test_settings_accept_every_whole_number(tmp_path: Path) -> None:
    settings = Cluster(num_partitions=np.int64(3), data_dir=str(tmp_path)).settings
    assert type(settings.num_partitions) is int
    assert settings.num_partitions == 3
    assert settings.data_dir == tmp_path


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="nodse"):
        Cluster(nodse=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nodse"):
        ClusterProcess(nodse=2)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="num_partitions"):
        Cluster(num_partitions="2")  # type: ignore[arg-type]


def test_keyword_arguments_are_the_settings() -> None:
    hints = get_type_hints(ClusterSettings)
    assert hints.pop("nodes") is int
    for path in ("data_dir", "ssl_keystore_location", "ssl_truststore_location"):
        hints[path] |= str
    assert get_type_hints(ClusterOptions) == hints
    for kind in (Cluster, ClusterProcess):
        assert get_type_hints(kind.__init__)["settings"] == Unpack[ClusterOptions]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"cleanup.polcy": "delete"}, "Unknown topic config name: cleanup.polcy"),
        ({"cleanup.policy": "nonsense"}, "Invalid value nonsense .* must be one of: compact"),
        ({"retention.ms": "1_000"}, "Invalid value 1_000 .* Not a number of type LONG"),
        ({"retention.ms": f"{2**63}"}, "Not a number of type LONG"),
        ({"retention.ms": "1" * 5_000}, "Not a number of type LONG"),
        ({"segment.bytes": f"{2**31}"}, "Not a number of type INT"),
        ({"min.cleanable.dirty.ratio": "half"}, "Not a number of type DOUBLE"),
        ({"min.cleanable.dirty.ratio": "1.5"}, "Value must be no more than 1"),
        ({"preallocate": "1"}, "Expected value to be either true or false"),
    ],
)
def test_invalid_topic_settings_are_refused(configs: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"topic_defaults must be .*{message}"):
        Cluster(topic_defaults=configs).start()
    with Cluster() as cluster:
        with pytest.raises(ClusterError, match=message):
            cluster.create_topic("t", configs=configs)
        with pytest.raises(ClusterError, match="there is no topic 't'"):
            cluster.describe_topic("t")


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete", "delete, compact"])
def test_cleanup_policy_of_new_topics(policy: str) -> None:
    assert ClusterSettings(log_cleanup_policy=policy).log_cleanup_policy == policy


@pytest.mark.parametrize("policy", ["", "compact,", "none", "compact delete"])
def test_unknown_cleanup_policy_is_refused(policy: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"log_cleanup_policy must be .*{policy!r}"):
        ClusterSettings(log_cleanup_policy=policy)

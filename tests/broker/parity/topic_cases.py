"""Metadata, topics and their settings, and the cluster."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.scene import Scene

_TOPIC, _BROKER = 2, 4
_TOPIC_CONFIG = 1
_ODD_NAMES = {"empty": "", "dot": ".", "dots": "..", "slash": "a/b", "blank": "a b", "colon": "a:b", "umlaut": "ä", "too long": "a" * 250}


def _metadata(scene: Scene, version: int, topics: list[dict[str, Any]] | None, *, create: bool = False) -> Any:
    return scene.any.call("Metadata", version, topics=topics, allow_auto_topic_creation=create)


@case
def metadata_at_each_version(scene: Scene) -> Any:
    topic = scene.topic(partitions=2, replicas=3)
    return {version: _metadata(scene, version, [{"name": topic}]) for version in range(14)}


@case
def metadata_of_all_topics_or_of_none(scene: Scene) -> Any:
    topic = scene.topic()

    def has(version: int, topics: list[dict[str, Any]] | None) -> bool:
        return topic in {each.name for each in _metadata(scene, version, topics).topics}

    return {"version 0, empty": has(0, []), "version 1, empty": has(1, []), "version 1, null": has(1, None), "version 12, null": has(12, None)}


@case
def metadata_of_an_unknown_topic(scene: Scene) -> Any:
    return {version: _metadata(scene, version, [{"name": scene.name("none")}]).topics for version in (4, 9, 12)}


@case
def metadata_of_odd_names(scene: Scene) -> Any:
    return {
        name: [_named(_metadata(scene, 9, [{"name": odd}], create=create).topics[0], name) for create in (False, True)]
        for name, odd in _ODD_NAMES.items()
    }


def _named(answer: Any, name: str) -> Any:
    answer.name = name
    return answer


@case
def metadata_creates_a_topic(scene: Scene) -> Any:
    topic = scene.name("made")
    scene.forget_later(topic)
    first = _metadata(scene, 9, [{"name": topic}], create=True).topics
    scene.await_leader(topic)
    return {"first": first, "then": _metadata(scene, 9, [{"name": topic}], create=True).topics}


@case
def metadata_of_version_3_creates_a_topic(scene: Scene) -> Any:
    topic = scene.name("made")
    scene.forget_later(topic)
    first = _metadata(scene, 3, [{"name": topic}]).topics
    scene.await_leader(topic)
    return {"first": first, "then": _metadata(scene, 3, [{"name": topic}]).topics}


@case
def metadata_by_topic_id(scene: Scene) -> Any:
    topic = scene.topic()
    known, unknown = {"topic_id": scene.topic_id(topic), "name": None}, {"topic_id": uuid.UUID(int=5), "name": None}
    return {version: [_metadata(scene, version, [each]).topics for each in (known, unknown)] for version in (12, 13)}


@case
def metadata_names_the_same_topic_twice(scene: Scene) -> Any:
    topic = scene.topic()
    answer = _metadata(scene, 9, [{"name": topic}, {"name": topic}, {"name": scene.name("none")}])
    return sorted(answer.topics, key=lambda each: each.name)


@case
def metadata_of_a_deleted_topic(scene: Scene) -> Any:
    topic = scene.topic()
    topic_id = scene.topic_id(topic)
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    scene.until(lambda: _metadata(scene, 12, [{"name": topic}]).topics[0].error_code != 0)
    return [_metadata(scene, 12, [wanted]).topics for wanted in ({"name": topic}, {"topic_id": topic_id, "name": None})]


def _create(scene: Scene, *, version: int = 7, validate_only: bool = False, **topic: Any) -> Any:
    wanted = {"name": scene.name(), "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | topic
    answer = scene.any.call("CreateTopics", version, topics=[wanted], timeout_ms=10_000, validate_only=validate_only)
    created = answer.topics[0]
    if created.error_code == 0 and not validate_only:
        scene.forget_later(created.name)
    if created.configs is not None:
        # How many settings there are is another thing.
        created.configs = [each for each in created.configs if each.name in {"retention.ms", "max.message.bytes", "cleanup.policy"}]
    return created


@case
def create_topic_at_each_version(scene: Scene) -> Any:
    return {version: _create(scene, version=version, name=scene.name(f"v{version}"), num_partitions=2) for version in range(2, 8)}


@case
def create_topic_with_defaults(scene: Scene) -> Any:
    return _create(scene, num_partitions=-1, replication_factor=-1)


@case
def create_topic_that_exists(scene: Scene) -> Any:
    topic = scene.topic()
    return {"same": _create(scene, name=topic), "validated": _create(scene, name=topic, validate_only=True)}


@case
def create_topic_of_an_odd_name(scene: Scene) -> Any:
    return {name: _named(_create(scene, name=odd, validate_only=True), name) for name, odd in _ODD_NAMES.items()}


@case
def create_topic_whose_name_collides(scene: Scene) -> Any:
    dotted = _create(scene, name=scene.name("a.b"))
    return {"dot": dotted, "underscore": _named(_create(scene, name=scene.name("a.b").replace(".", "_")), "a_b")}


@case
def create_topic_of_a_bad_size(scene: Scene) -> Any:
    sizes = {"no partitions": (0, 1), "minus 2 partitions": (-2, 1), "no replicas": (1, 0), "minus 2 replicas": (1, -2), "4 replicas": (1, 4)}
    return {name: _create(scene, num_partitions=size[0], replication_factor=size[1]) for name, size in sizes.items()}


@case
def create_topic_only_to_validate(scene: Scene) -> Any:
    topic = scene.name()
    answer = _create(scene, name=topic, validate_only=True)
    return {"answer": answer, "metadata": _metadata(scene, 9, [{"name": topic}]).topics}


@case
def create_topic_with_bad_settings(scene: Scene) -> Any:
    settings = {
        "unknown": ("no.such.setting", "1"),
        "no number": ("retention.ms", "soon"),
        "below the least": ("segment.bytes", "1"),
        "none of these": ("cleanup.policy", "burn"),
        "null": ("retention.ms", None),
        "empty name": ("", "1"),
        "good": ("retention.ms", "1000"),
        "good with blanks": ("retention.ms", " 2000 "),
        "min.insync.replicas of 0": ("min.insync.replicas", "0"),
        "max.message.bytes negative": ("max.message.bytes", "-1"),
        "timestamp type": ("message.timestamp.type", "NoTime"),
        "compression type": ("compression.type", "lz77"),
    }
    return {
        name: _create(scene, name=scene.name(f"t{number}"), validate_only=True, configs=[{"name": key, "value": value}])
        for number, (name, (key, value)) in enumerate(settings.items())
    }


@case
def create_topic_with_an_assignment(scene: Scene) -> Any:
    def assignment(*brokers: list[int], start: int = 0, **also: Any) -> Any:
        parts = [{"partition_index": start + number, "broker_ids": each} for number, each in enumerate(brokers)]
        return {"num_partitions": -1, "replication_factor": -1, "assignments": parts} | also

    wanted = {
        "good": assignment([0, 1], [1, 2]),
        "one partition of two nodes": assignment([2, 0]),
        "unknown node": assignment([0, 9]),
        "the same node twice": assignment([0, 0]),
        "no nodes": assignment([]),
        "from 1 on": assignment([0], start=1),
        "different sizes": assignment([0], [1, 2]),
        "with a count": assignment([0], num_partitions=1),
        "with a replication factor": assignment([0], replication_factor=1),
    }
    return {name: _create(scene, name=scene.name(f"t{number}"), **each) for number, (name, each) in enumerate(wanted.items())}


@case
def create_the_same_topic_twice_in_one_request(scene: Scene) -> Any:
    topic = {"name": scene.name(), "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = scene.any.call("CreateTopics", 5, topics=[topic, topic], timeout_ms=10_000, validate_only=True)
    return [{"name": each.name, "error_code": each.error_code} for each in answer.topics]


@case
def create_no_topics(scene: Scene) -> Any:
    return scene.any.call("CreateTopics", 5, topics=[], timeout_ms=10_000, validate_only=False)


@case
def delete_topics_by_name(scene: Scene) -> Any:
    topic = scene.topic()
    ask = {"topic_names": [topic, scene.name("none")], "timeout_ms": 5_000}
    return {"first": scene.any.call("DeleteTopics", 5, **ask), "version 1": scene.any.call("DeleteTopics", 1, **ask)}


@case
def delete_topics_by_id(scene: Scene) -> Any:
    topic, other = scene.topic(), scene.topic("other")
    known = scene.topic_id(topic)
    wanted = {
        "unknown id": {"topic_id": uuid.UUID(int=5), "name": None},
        "known id": {"topic_id": known, "name": None},
        "known id again": {"topic_id": known, "name": None},
        "name": {"topic_id": uuid.UUID(int=0), "name": other},
        "neither": {"topic_id": uuid.UUID(int=0), "name": None},
    }
    return {name: scene.any.call("DeleteTopics", 6, topics=[each], timeout_ms=5_000).responses for name, each in wanted.items()}


@case
def delete_a_topic_named_and_identified(scene: Scene) -> Any:
    topic = scene.topic()
    both = {"topic_id": scene.topic_id(topic), "name": topic}
    return scene.any.call("DeleteTopics", 6, topics=[both], timeout_ms=5_000).responses


@case
def delete_a_topic_and_make_it_anew(scene: Scene) -> Any:
    topic = scene.topic()
    scene.produce(scene.leader(topic), topic, batch(b"old"))
    before = scene.topic_id(topic)
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    scene.until(lambda: _metadata(scene, 12, [{"name": topic}]).topics[0].error_code != 0)
    scene.topic()
    return {"another id": scene.topic_id(topic) != before, "fetched": scene.fetch(scene.leader(topic), topic)}


@case
def create_partitions(scene: Scene) -> Any:
    topic = scene.topic(partitions=2)

    def ask(count: int, *, name: str = topic, assignments: Any = None, validate_only: bool = False) -> Any:
        wanted = {"name": name, "count": count, "assignments": assignments}
        return scene.any.call("CreatePartitions", 3, topics=[wanted], timeout_ms=5_000, validate_only=validate_only).results

    seen = {
        "fewer": ask(1),
        "as many": ask(2),
        "none": ask(0),
        "negative": ask(-1),
        "unknown topic": ask(3, name=scene.name("none")),
        "odd name": ask(3, name="a/b"),
        "only validated": ask(3, validate_only=True),
        "too few assignments": ask(4, assignments=[{"broker_ids": [0]}]),
        "too many assignments": ask(3, assignments=[{"broker_ids": [0]}, {"broker_ids": [1]}]),
        "unknown node": ask(3, assignments=[{"broker_ids": [9]}]),
        "another replication factor": ask(3, assignments=[{"broker_ids": [0, 1]}]),
        "more": ask(3),
        "more, assigned": ask(4, assignments=[{"broker_ids": [1]}]),
    }
    scene.await_leader(topic, 3)
    return seen | {"partitions": len(_metadata(scene, 9, [{"name": topic}]).topics[0].partitions)}


@case
def create_partitions_of_one_topic_twice(scene: Scene) -> Any:
    topic = scene.topic()
    wanted = [{"name": topic, "count": count, "assignments": None} for count in (2, 3)]
    return scene.any.call("CreatePartitions", 3, topics=wanted, timeout_ms=5_000, validate_only=True).results


def _configs(scene: Scene, kind: int, name: str, keys: list[str] | None, *, version: int = 4, synonyms: bool = False) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = scene.any.call("DescribeConfigs", version, resources=[resource], include_synonyms=synonyms, include_documentation=False)
    return answer.results[0]


@case
def describe_configs_of_a_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"retention.ms": "1000"})
    keys = ["retention.ms", "cleanup.policy", "min.insync.replicas", "max.message.bytes", "message.timestamp.type", "no.such.setting"]
    seen = {version: _configs(scene, _TOPIC, topic, keys, version=version) for version in (1, 2, 3, 4)}
    all_names = {each.name for each in _configs(scene, _TOPIC, topic, None).configs}
    return seen | {"all are there": set(keys[:-1]) <= all_names, "no keys": len(_configs(scene, _TOPIC, topic, []).configs) in (0, len(all_names))}


@case
def describe_configs_with_synonyms(scene: Scene) -> Any:
    topic = scene.topic(configs={"max.message.bytes": "1000"})
    return _configs(scene, _TOPIC, topic, ["max.message.bytes"], synonyms=True)


@case
def describe_configs_of_unknown_things(scene: Scene) -> Any:
    wanted = {
        "topic": (_TOPIC, scene.name("none")),
        "odd topic": (_TOPIC, "a/b"),
        "empty topic": (_TOPIC, ""),
        "another broker": (_BROKER, "1"),
        "unknown broker": (_BROKER, "9"),
        "no number": (_BROKER, "zero"),
        "unknown type": (77, "x"),
    }
    return {name: _configs(scene, kind, resource, ["no.such.setting"]) for name, (kind, resource) in wanted.items()}


@case
def describe_configs_of_a_broker(scene: Scene) -> Any:
    keys = ["offsets.topic.num.partitions", "group.min.session.timeout.ms", "no.such.setting"]
    return {"own": _configs(scene, _BROKER, "0", keys), "all brokers": _configs(scene, _BROKER, "", keys)}


@case
def alter_configs_of_a_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"retention.ms": "1000"})

    def alter(operation: int, name: str, value: str | None, *, resource: str = topic, validate_only: bool = False) -> Any:
        config = {"name": name, "config_operation": operation, "value": value}
        resources = [{"resource_type": _TOPIC, "resource_name": resource, "configs": [config]}]
        return scene.any.call("IncrementalAlterConfigs", 1, resources=resources, validate_only=validate_only).responses

    def value_is(value: str) -> Any:
        return scene.until(lambda: _configs(scene, _TOPIC, topic, ["retention.ms"]).configs[0].value == value)

    set_, delete, append = 0, 1, 2
    seen = {"validated": alter(set_, "retention.ms", "5000", validate_only=True), "set": alter(set_, "retention.ms", "2000")}
    seen["is set"] = value_is("2000")
    seen["deleted"] = alter(delete, "retention.ms", None)
    seen["is deleted"] = scene.until(lambda: _configs(scene, _TOPIC, topic, ["retention.ms"]).configs[0].config_source != _TOPIC_CONFIG)
    return seen | {
        "unknown setting": alter(set_, "no.such.setting", "1"),
        "no number": alter(set_, "retention.ms", "soon"),
        "no list": alter(append, "retention.ms", "1"),
        "list": alter(append, "cleanup.policy", "compact"),
        "unknown topic": alter(set_, "retention.ms", "1000", resource=scene.name("none")),
        "unknown operation": alter(9, "retention.ms", "1000"),
    }


@case
def describe_cluster(scene: Scene) -> Any:
    return {
        "brokers": scene.any.call("DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=1),
        "version 0": scene.any.call("DescribeCluster", 0, include_cluster_authorized_operations=False),
        "controllers are not asked for here": scene.any.call(
            "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
        ).error_code,
    }


def _delete_records(scene: Scene, client: Any, topic: str, offset: int, *, partition: int = 0) -> Any:
    wanted = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    return client.call("DeleteRecords", 2, topics=[wanted], timeout_ms=5_000).topics[0].partitions[0]


@case
def delete_records(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    for number in range(5):
        scene.produce(client, topic, batch(b"%d" % number))
    offsets = {"to 2": 2, "back to 1": 1, "beyond the end": 6, "below -1": -2, "to 2 again": 2, "to the end": -1, "to the end again": 5}
    seen = {name: _delete_records(scene, client, topic, offset) for name, offset in offsets.items()}
    seen["unknown topic"] = _delete_records(scene, client, scene.name("none"), 0)
    seen["unknown partition"] = _delete_records(scene, client, topic, 0, partition=7)
    seen["not the leader"] = _delete_records(scene, scene.other(topic), topic, 0)
    scene.produce(client, topic, batch(b"new"))
    return seen | {"fetched": scene.fetch(client, topic, offsets=5)}


@case
def delete_records_inside_a_batch(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1", b"2", b"3"))
    return {"deleted": _delete_records(scene, client, topic, 1), "fetched": scene.fetch(client, topic, offsets=1)}


@case
def delete_records_of_a_replicated_topic(scene: Scene) -> Any:
    topic = scene.topic(replicas=3)
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1"))
    return scene.timed(5_000, lambda: _delete_records(scene, client, topic, -1))


@case
def delete_records_of_a_compacted_topic(scene: Scene) -> Any:
    topic = scene.topic(configs={"cleanup.policy": "compact"})
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1"))
    return _delete_records(scene, client, topic, -1)

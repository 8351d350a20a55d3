"""The file in which the controller stores the cluster's metadata, as JSON."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from purgatory_broker.log.checkpoint import replace_file
from purgatory_broker.metadata.acls import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
)
from purgatory_broker.metadata.scram import ScramCredential, ScramMechanism
from purgatory_broker.metadata.topic_configs import topic_config_error
from purgatory_broker.metadata.topics import NO_LEADER, Partition, Topic, topic_name_error
from request_purgatory.errors import InvalidArgumentError

FILE_NAME = "cluster.json"

#: Whom a quota is for: pairs of a type and a name, sorted. The name None is the default of the
#: type: for all whose name has no quota.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    cluster_id: str
    nodes: int
    #: Producer ids below this may have been assigned.
    producer_ids_reserved: int
    topics: list[Topic]
    client_quotas: dict[QuotaEntity, dict[str, float]]
    #: The settings of groups and brokers, by type and name.
    resource_configs: dict[tuple[int, str], dict[str, str]]
    #: The SCRAM credentials that clients have stored, by user and mechanism; None is one that they
    #: have deleted.
    scram_changes: dict[tuple[str, ScramMechanism], ScramCredential | None]
    acls: Acls


def save_metadata(path: Path, metadata: StoredMetadata) -> None:
    """Replace the file atomically, and flush it to the disk."""
    data = {
        "cluster_id": metadata.cluster_id,
        "nodes": metadata.nodes,
        "producer_ids_taken": metadata.producer_ids_reserved,
        "topics": [_topic_to_json(topic) for topic in metadata.topics],
        "client_quotas": [
            {"entity": dict(entity), "values": values}
            for entity, values in metadata.client_quotas.items()
        ],
        "resource_configs": [
            {"type": int(kind), "name": name, "configs": configs}
            for (kind, name), configs in metadata.resource_configs.items()
        ],
        "scram_credentials": [
            {
                "user": user,
                "mechanism": mechanism.name,
                "credential": None if credential is None else _credential_to_json(credential),
            }
            for (user, mechanism), credential in metadata.scram_changes.items()
        ],
        "acls": [_acl_to_json(acl) for acl in metadata.acls],
    }
    replace_file(path, ".partial", json.dumps(data, indent=1))


def load_metadata(path: Path) -> StoredMetadata:
    try:
        data = json.loads(path.read_text("utf-8"))
        metadata = StoredMetadata(
            data["cluster_id"],
            data["nodes"],
            data["producer_ids_taken"],
            [_topic_from_json(topic) for topic in data["topics"]],
            {
                tuple(sorted(entry["entity"].items())): {
                    key: float(value) for key, value in entry["values"].items()
                }
                for entry in data.get("client_quotas", [])
            },
            {
                (int(entry["type"]), str(entry["name"])): dict(entry["configs"])
                for entry in data.get("resource_configs", [])
            },
            {
                (entry["user"], ScramMechanism[entry["mechanism"]]): _credential_from_json(
                    entry["credential"]
                )
                for entry in data.get("scram_credentials", [])
            },
            Acls(map(_acl_from_json, data.get("acls", []))),
        )
        _check(metadata)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            "data_dir",
            f"a directory whose {path.name} is not damaged ({type(error).__name__}: {error})",
            str(path.parent),
        ) from error
    return metadata


def _check(metadata: StoredMetadata) -> None:
    _require(isinstance(metadata.cluster_id, str), "the cluster id", metadata.cluster_id)
    _require(_is_count(metadata.nodes), "the number of nodes", metadata.nodes)
    reserved = metadata.producer_ids_reserved
    _require(_is_count(reserved), "the number of producer ids", reserved)
    for (user, mechanism), credential in metadata.scram_changes.items():
        _require(isinstance(user, str) and bool(user), "a user's name", user)
        if credential is not None:
            sizes = {len(credential.stored_key), len(credential.server_key)}
            size = len(mechanism.hash(b""))
            _require(sizes == {size}, f"the sizes of a key of {user}", sizes)
            _require(_is_count(credential.iterations), "iterations", credential.iterations)
    names = [topic.name for topic in metadata.topics]
    _require(len(set(names)) == len(names), "the topics' names", names)
    ids = [topic.topic_id for topic in metadata.topics]
    _require(len(set(ids)) == len(ids), "the topics' ids", ids)
    for topic in metadata.topics:
        _require(topic_name_error(topic.name) is None, "a topic's name", topic.name)
        error = topic_config_error(topic.configs)
        _require(error is None, f"the configs of {topic.name}", error)
        _require(bool(topic.partitions), f"the partitions of {topic.name}", topic.partitions)
        for partition in topic.partitions:
            replicas, isr = partition.replicas, partition.isr
            _require(_is_nodes(replicas), f"the replicas of {partition.key}", replicas)
            _require(
                _is_nodes(isr) and set(isr) <= set(replicas),
                f"the in-sync replicas of {partition.key}",
                isr,
            )
            for some in (partition.adding, partition.removing):
                _require(
                    some == [] or (_is_nodes(some) and set(some) < set(replicas)),
                    f"the reassigned replicas of {partition.key}",
                    some,
                )
            leader = partition.leader
            _require(leader in (NO_LEADER, *replicas), f"the leader of {partition.key}", leader)
            epochs = (partition.leader_epoch, partition.partition_epoch)
            _require(all(map(_is_count, epochs)), f"the epochs of {partition.key}", epochs)


def _require(is_valid: bool, what: str, value: object) -> None:
    if not is_valid:
        raise ValueError(f"{what} can't be {value!r}")


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_nodes(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(map(_is_count, value))
        and len(set(value)) == len(value)
    )


def _acl_to_json(acl: Acl) -> dict[str, str]:
    return {
        "resource": acl.resource.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def _acl_from_json(data: dict[str, str]) -> Acl:
    texts = (data["name"], data["principal"], data["host"])
    _require(all(isinstance(text, str) and text for text in texts), "the texts of an ACL", texts)
    return Acl(
        AclResource[data["resource"]],
        data["name"],
        AclPattern[data["pattern"]],
        data["principal"],
        data["host"],
        AclOperation[data["operation"]],
        AclPermission[data["permission"]],
    )


def _credential_to_json(credential: ScramCredential) -> dict[str, Any]:
    return {
        "iterations": credential.iterations,
        "salt": base64.b64encode(credential.salt).decode(),
        "stored_key": base64.b64encode(credential.stored_key).decode(),
        "server_key": base64.b64encode(credential.server_key).decode(),
    }


def _credential_from_json(data: dict[str, Any] | None) -> ScramCredential | None:
    if data is None:
        return None
    salt, stored_key, server_key = (
        base64.b64decode(data[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    return ScramCredential(salt, data["iterations"], stored_key, server_key)


def _topic_to_json(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": topic.configs,
        "partitions": [
            {
                "replicas": partition.replicas,
                "isr": partition.isr,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "partition_epoch": partition.partition_epoch,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
            for partition in topic.partitions
        ],
    }


def _topic_from_json(data: dict[str, Any]) -> Topic:
    partitions = [
        Partition(
            data["name"],
            index,
            partition["replicas"],
            partition["isr"],
            partition["leader"],
            partition["leader_epoch"],
            partition["partition_epoch"],
            partition.get("adding_replicas", []),
            partition.get("removing_replicas", []),
        )
        for index, partition in enumerate(data["partitions"])
    ]
    return Topic(data["name"], uuid.UUID(data["topic_id"]), partitions, data["configs"])

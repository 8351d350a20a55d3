"""The file in which the controller stores the cluster's metadata, as JSON."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from request_purgatory.broker.log.checkpoint import flush_folder
from request_purgatory.broker.metadata.topics import Partition, Topic

FILE_NAME = "cluster.json"


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """The content of the file.

    Attributes:
        cluster_id: the cluster's id.
        nodes: the number of nodes.
        producer_ids_reserved: producer ids below this may have been assigned.
        topics: the topics with their partitions.
    """

    cluster_id: str
    nodes: int
    producer_ids_reserved: int
    topics: list[Topic]


def save_metadata(path: Path, metadata: StoredMetadata) -> None:
    """Replace the file atomically, and flush it to the disk.

    Args:
        path: the file.
        metadata: its new content.
    """
    data = {
        "cluster_id": metadata.cluster_id,
        "nodes": metadata.nodes,
        "producer_ids_taken": metadata.producer_ids_reserved,
        "topics": [_topic_to_json(topic) for topic in metadata.topics],
    }
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    flush_folder(path.parent)


def load_metadata(path: Path) -> StoredMetadata:
    """Return the content of the file."""
    data = json.loads(path.read_text())
    return StoredMetadata(
        data["cluster_id"],
        data["nodes"],
        data["producer_ids_taken"],
        [_topic_from_json(each) for each in data["topics"]],
    )


def _topic_to_json(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": topic.configs,
        "partitions": [
            {
                "replicas": each.replicas,
                "isr": each.isr,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "partition_epoch": each.partition_epoch,
            }
            for each in topic.partitions
        ],
    }


def _topic_from_json(data: dict[str, Any]) -> Topic:
    partitions = [
        Partition(data["name"], index, **each) for index, each in enumerate(data["partitions"])
    ]
    return Topic(data["name"], uuid.UUID(data["topic_id"]), partitions, data["configs"])

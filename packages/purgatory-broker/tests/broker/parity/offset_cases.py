"""Committed offsets."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.members import Member, newcomer, only_member
from tests.broker.parity.raw import RawClient


def _commit(
    client: RawClient,
    group: str,
    offsets: dict[tuple[str, int], int],
    *,
    version: int = 8,
    metadata: str | None = "said",
    **changed_fields: Any,
) -> Any:
    topics: dict[str, Any] = {}
    for (topic, partition), offset in offsets.items():
        entry = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 3,
            "committed_metadata": metadata,
        }
        topics.setdefault(topic, {"name": topic, "partitions": []})["partitions"].append(entry)
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
    }
    return client.call(
        "OffsetCommit", version, **fields | changed_fields, topics=list(topics.values())
    )


def _fetched(
    client: RawClient, group: str, wanted: dict[str, list[int]] | None, *, version: int = 7
) -> Any:
    topics = (
        None
        if wanted is None
        else [{"name": name, "partition_indexes": each} for name, each in wanted.items()]
    )
    if version >= 8:
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
        return client.call("OffsetFetch", version, groups=groups, require_stable=False)
    return client.call("OffsetFetch", version, group_id=group, topics=topics, require_stable=False)


@case
def commit_without_a_group(harness: CaseHarness) -> Any:
    """Commit as a consumer with manually assigned partitions."""
    group, topic = harness.name("group"), harness.topic(partitions=2)
    client = harness.coordinator(group)
    committed = {
        version: _commit(client, group, {(topic, 0): version}, version=version)
        for version in range(2, 10)
    }
    fetched = {
        version: _fetched(client, group, {topic: [0, 1]}, version=version)
        for version in range(1, 10)
    }
    return {
        "committed": committed,
        "fetched": fetched,
        "all": {
            version: _fetched(client, group, None, version=version) for version in range(2, 10)
        },
    }


@case
def commit_of_unknown_topics(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    client = harness.coordinator(group)
    offsets = {(topic, 0): 1, (topic, 7): 2, (harness.name("none"), 0): 3}
    return {"committed": _commit(client, group, offsets), "fetched": _fetched(client, group, None)}


@case
def commit_names_a_topic_twice(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic(partitions=2)
    client = harness.coordinator(group)

    def committed(*named: tuple[str, list[int]]) -> Any:
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
                    for index in indexes
                ],
            }
            for name, indexes in named
        ]
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
        answer = client.call("OffsetCommit", 8, **fields, topics=topics)
        return _in_order(answer)

    none = harness.name("none")
    return {
        "known": committed((topic, [0]), (topic, [1])),
        "known and unknown": committed((topic, [0, 7]), (topic, [1, 8])),
        "another is unknown": committed((topic, [0]), (none, [0]), (topic, [1])),
        "unknown": committed((none, [0]), (none, [1])),
        "nothing of them": committed((none, []), (topic, [])),
    }


def _in_order(answer: Any) -> list[str]:
    """Return the results of a response in their order, which is not recorded of responses."""
    return [
        f"{topic.name}: "
        + ", ".join(f"{p.partition_index} {p.error_code}" for p in topic.partitions)
        for topic in answer.topics
    ]


@case
def commit_of_unusual_values(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    client = harness.coordinator(group)
    seen: dict[Any, Any] = {
        "longest metadata": _commit(client, group, {(topic, 0): 1}, metadata="m" * 4096),
        "metadata too long": _commit(client, group, {(topic, 0): 2}, metadata="m" * 4097),
        "metadata too long in bytes": _commit(client, group, {(topic, 0): 3}, metadata="ä" * 2049),
        "no metadata": _commit(client, group, {(topic, 0): 4}, metadata=None),
    }
    seen["fetched"] = _fetched(client, group, {topic: [0]})
    seen["negative offset"] = _commit(client, group, {(topic, 0): -5})
    seen["fetched then"] = _fetched(client, group, {topic: [0]})
    seen["beyond the end"] = _commit(client, group, {(topic, 0): 1 << 40})
    return seen | {
        "no topics": _commit(client, group, {}),
        "empty group": _commit(harness.coordinator(""), "", {(topic, 0): 1}),
    }


@case
def commit_of_a_member(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    member = only_member(harness, group)
    offsets = {(topic, 0): 5}

    def commit(generation: int, member_id: str) -> Any:
        return _commit(
            member.client,
            group,
            offsets,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
        )

    return {
        "good": commit(member.generation, member.id),
        "unknown member": commit(member.generation, "nobody"),
        "generation too low": commit(member.generation - 1, member.id),
        "generation too high": commit(member.generation + 1, member.id),
        "without a group": commit(-1, ""),
        "member without generation": commit(-1, member.id),
        "generation without member": commit(member.generation, ""),
        "unknown instance": _commit(
            member.client,
            group,
            offsets,
            generation_id_or_member_epoch=member.generation,
            member_id=member.id,
            group_instance_id="one",
        ),
    }


@case
def commit_to_unknown_groups(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    client = harness.coordinator(group)
    offsets = {(topic, 0): 5}
    return {
        "generation and member": _commit(
            client, group, offsets, generation_id_or_member_epoch=1, member_id="nobody"
        ),
        "generation": _commit(client, group, offsets, generation_id_or_member_epoch=1),
        "member": _commit(client, group, offsets, member_id="nobody"),
        "not the coordinator": _commit(
            harness.connect(next(each for each in harness.addresses() if each != client.address)),
            group,
            offsets,
        ),
    }


@case
def commit_while_the_group_rebalances(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    member = only_member(harness, group)

    def commit(by: Member) -> Any:
        return _commit(
            by.client,
            group,
            {(topic, 0): 5},
            generation_id_or_member_epoch=by.generation,
            member_id=by.id,
        )

    second = newcomer(harness, group)
    second.start_join()
    harness.until(member.heartbeat_error)
    seen: dict[Any, Any] = {"members are rejoining": commit(member)}
    member.join()
    seen["assignment is awaited"] = commit(member)
    second.joined()
    second.start_sync()
    member.sync(member, second)
    return seen | {"stable again": commit(member)}


@case
def commits_outlive_members(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    member = only_member(harness, group)
    _commit(
        member.client,
        group,
        {(topic, 0): 5},
        generation_id_or_member_epoch=member.generation,
        member_id=member.id,
    )
    member.leave()
    seen: dict[Any, Any] = {"left": _fetched(member.client, group, {topic: [0]})}
    seen["by hand, in the empty group"] = _commit(member.client, group, {(topic, 0): 6})
    seen["as a member that left"] = _commit(
        member.client, group, {(topic, 0): 7}, generation_id_or_member_epoch=1, member_id=member.id
    )
    seen["fetched"] = _fetched(member.client, group, {topic: [0]})
    seen["deleted"] = member.client.call("DeleteGroups", 2, groups_names=[group]).results
    return seen | {"fetched then": _fetched(member.client, group, {topic: [0]})}


@case
def commits_are_deleted_with_their_topic(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    client = harness.coordinator(group)
    _commit(client, group, {(topic, 0): 5})
    harness.node_0.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)

    def gone() -> bool:
        partitions = _fetched(client, group, {topic: [0]}).topics[0].partitions
        return bool(partitions[0].committed_offset == -1)

    return {"gone": harness.until(gone), "all": _fetched(client, group, None)}


@case
def offset_fetch_of_unknown_partitions(harness: CaseHarness) -> Any:
    group, topic = harness.name("group"), harness.topic()
    client = harness.coordinator(group)
    seen: dict[Any, Any] = {
        version: _fetched(
            client, group, {topic: [0, 7], harness.name("none"): [0]}, version=version
        )
        for version in (1, 2, 7, 8)
    }
    seen["all of an unknown group"] = _fetched(client, group, None)
    seen["nothing"] = _fetched(client, group, {})
    seen["empty group"] = _fetched(harness.coordinator(""), "", {topic: [0]})
    other = harness.connect(next(each for each in harness.addresses() if each != client.address))
    return seen | {
        "not the coordinator": {
            version: _fetched(other, group, {topic: [0]}, version=version)
            for version in (1, 2, 7, 8)
        }
    }


@case
def offset_fetch_of_several_groups(harness: CaseHarness) -> Any:
    topic, group = harness.topic(), harness.name("group")
    client = harness.coordinator(group)
    _commit(client, group, {(topic, 0): 5})
    wanted = [{"name": topic, "partition_indexes": [0]}]
    groups = [
        {"group_id": each, "member_id": None, "member_epoch": -1, "topics": wanted}
        for each in (group, group)
    ]
    return client.call("OffsetFetch", 8, groups=groups, require_stable=True)


@case
def offset_fetch_of_a_member(harness: CaseHarness) -> Any:
    """Fetch as a member: the newer group protocol requires a member id, the older one does not."""
    topic, group = harness.topic(), harness.name("group")
    member = only_member(harness, group)
    wanted = [{"name": topic, "partition_indexes": [0]}]
    seen = {}
    for name, (who, epoch) in {
        "itself": (member.id, member.generation),
        "nobody": ("nobody", 1),
        "other epoch": (member.id, 99),
    }.items():
        groups = [{"group_id": group, "member_id": who, "member_epoch": epoch, "topics": wanted}]
        seen[name] = member.client.call("OffsetFetch", 9, groups=groups, require_stable=False)
    return seen


@case
def offset_delete(harness: CaseHarness) -> Any:
    topic, group = harness.topic(), harness.name("group")
    client = harness.coordinator(group)
    _commit(client, group, {(topic, 0): 5})

    def delete(which: str = group, where: str = topic, partition: int = 0) -> Any:
        return harness.coordinator(which).call(
            "OffsetDelete",
            0,
            group_id=which,
            topics=[{"name": where, "partitions": [{"partition_index": partition}]}],
        )

    seen = {
        "unknown group": delete(harness.name("none")),
        "unknown topic": delete(where=harness.name("none")),
        "unknown partition": delete(partition=7),
    }
    seen |= {"empty group name": delete(""), "deleted": delete(), "again": delete()}
    return seen | {"fetched": _fetched(client, group, {topic: [0]})}


@case
def offset_delete_names_a_topic_twice(harness: CaseHarness) -> Any:
    topic, group = harness.topic(partitions=2), harness.name("group")
    client = harness.coordinator(group)
    _commit(client, group, {(topic, 0): 5, (topic, 1): 5})

    def deleted(*named: tuple[str, list[int]]) -> Any:
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
            for name, indexes in named
        ]
        return _in_order(client.call("OffsetDelete", 0, group_id=group, topics=topics))

    none = harness.name("none")
    return {
        "known": deleted((topic, [0]), (topic, [1])),
        "known and unknown": deleted((topic, [0, 7]), (topic, [1, 8])),
        "another is unknown": deleted((topic, [0]), (none, [0]), (topic, [1])),
        "unknown": deleted((none, [0]), (none, [1])),
        "nothing of them": deleted((none, []), (topic, [])),
    }

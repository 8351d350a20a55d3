"""The offsets that groups commit."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.members import Member, newcomer, only_member
from tests.broker.parity.raw import RawClient
from tests.broker.parity.scene import Scene


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
def commit_without_a_group(scene: Scene) -> Any:
    """What consumers do that are assigned their partitions by hand."""
    group, topic = scene.name("group"), scene.topic(partitions=2)
    client = scene.coordinator(group)
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
def commit_of_unknown_topics(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    client = scene.coordinator(group)
    offsets = {(topic, 0): 1, (topic, 7): 2, (scene.name("none"), 0): 3}
    return {"committed": _commit(client, group, offsets), "fetched": _fetched(client, group, None)}


@case
def commit_of_odd_values(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    client = scene.coordinator(group)
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
        "empty group": _commit(scene.coordinator(""), "", {(topic, 0): 1}),
    }


@case
def commit_of_a_member(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    member = only_member(scene, group)
    offsets = {(topic, 0): 5}

    def commit(generation: int, who: str) -> Any:
        return _commit(
            member.client, group, offsets, generation_id_or_member_epoch=generation, member_id=who
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
def commit_to_groups_that_are_not(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    client = scene.coordinator(group)
    offsets = {(topic, 0): 5}
    return {
        "generation and member": _commit(
            client, group, offsets, generation_id_or_member_epoch=1, member_id="nobody"
        ),
        "generation": _commit(client, group, offsets, generation_id_or_member_epoch=1),
        "member": _commit(client, group, offsets, member_id="nobody"),
        "not the coordinator": _commit(
            scene.connect(next(each for each in scene.addresses() if each != client.address)),
            group,
            offsets,
        ),
    }


@case
def commit_while_the_group_rebalances(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    member = only_member(scene, group)

    def commit(who: Member) -> Any:
        return _commit(
            who.client,
            group,
            {(topic, 0): 5},
            generation_id_or_member_epoch=who.generation,
            member_id=who.id,
        )

    second = newcomer(scene, group)
    second.start_join()
    scene.until(member.told_to_rejoin)
    seen: dict[Any, Any] = {"members are rejoining": commit(member)}
    member.join()
    seen["assignment is awaited"] = commit(member)
    second.joined()
    second.start_sync()
    member.sync(member, second)
    return seen | {"stable again": commit(member)}


@case
def commits_outlive_members(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    member = only_member(scene, group)
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
def commits_go_with_their_topic(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    client = scene.coordinator(group)
    _commit(client, group, {(topic, 0): 5})
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)

    def gone() -> bool:
        partitions = _fetched(client, group, {topic: [0]}).topics[0].partitions
        return bool(partitions[0].committed_offset == -1)

    return {"gone": scene.until(gone), "all": _fetched(client, group, None)}


@case
def offset_fetch_of_unknown_things(scene: Scene) -> Any:
    group, topic = scene.name("group"), scene.topic()
    client = scene.coordinator(group)
    seen: dict[Any, Any] = {
        version: _fetched(client, group, {topic: [0, 7], scene.name("none"): [0]}, version=version)
        for version in (1, 2, 7, 8)
    }
    seen["all of an unknown group"] = _fetched(client, group, None)
    seen["nothing"] = _fetched(client, group, {})
    seen["empty group"] = _fetched(scene.coordinator(""), "", {topic: [0]})
    other = scene.connect(next(each for each in scene.addresses() if each != client.address))
    return seen | {
        "not the coordinator": {
            version: _fetched(other, group, {topic: [0]}, version=version)
            for version in (1, 2, 7, 8)
        }
    }


@case
def offset_fetch_of_several_groups(scene: Scene) -> Any:
    topic, group = scene.topic(), scene.name("group")
    client = scene.coordinator(group)
    _commit(client, group, {(topic, 0): 5})
    wanted = [{"name": topic, "partition_indexes": [0]}]
    groups = [
        {"group_id": each, "member_id": None, "member_epoch": -1, "topics": wanted}
        for each in (group, group)
    ]
    return client.call("OffsetFetch", 8, groups=groups, require_stable=True)


@case
def offset_fetch_of_a_member(scene: Scene) -> Any:
    """Members of the newer protocol say who they are; those of the older one need not."""
    topic, group = scene.topic(), scene.name("group")
    member = only_member(scene, group)
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
def offset_delete(scene: Scene) -> Any:
    topic, group = scene.topic(), scene.name("group")
    client = scene.coordinator(group)
    _commit(client, group, {(topic, 0): 5})

    def delete(which: str = group, where: str = topic, partition: int = 0) -> Any:
        return scene.coordinator(which).call(
            "OffsetDelete",
            0,
            group_id=which,
            topics=[{"name": where, "partitions": [{"partition_index": partition}]}],
        )

    seen = {
        "unknown group": delete(scene.name("none")),
        "unknown topic": delete(where=scene.name("none")),
        "unknown partition": delete(partition=7),
    }
    seen |= {"empty group name": delete(""), "deleted": delete(), "again": delete()}
    return seen | {"fetched": _fetched(client, group, {topic: [0]})}

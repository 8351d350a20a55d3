"""Members of share groups, and the administration of groups and offsets."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient
from tests.broker.sharing.parity.member import call, new_id


class GroupMember:
    """A member that sends heartbeats."""

    def __init__(self, harness: CaseHarness, client: RawClient, group: str) -> None:
        self.harness, self.client, self.group = harness, client, group
        self.member_id = new_id()
        self.epoch = 0

    def heartbeat(self, topics: list[str] | None = None, *, epoch: int | None = None) -> Any:
        """Return the response to a heartbeat, and take the epoch from it."""
        answer = call(
            self.client,
            "ShareGroupHeartbeat",
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        if not answer.error_code and answer.member_epoch > 0:
            self.epoch = answer.member_epoch
        return answer

    def joined(self, topics: list[str], count: int) -> list[int]:
        """Send heartbeats until the member has some partitions; return their numbers."""
        assigned: list[int] = []

        def take(answer: Any) -> bool:
            assert not answer.error_code, answer
            if answer.assignment is not None:
                assigned[:] = [
                    number
                    for topic in answer.assignment.topic_partitions
                    for number in topic.partitions
                ]
            return len(assigned) >= count

        def found() -> bool:
            return take(self.heartbeat())

        if take(self.heartbeat(topics)):
            return sorted(assigned)
        self.harness.until(found)
        return sorted(assigned)


def _described(client: RawClient, group: str) -> Any:
    return call(
        client, "ShareGroupDescribe", group_ids=[group], include_authorized_operations=False
    ).groups[0]


def _without_ids(described: Any) -> dict[str, Any]:
    return {
        "error": described.error_code,
        "state": described.group_state,
        "assignor": described.assignor_name,
        "epochs are equal": described.group_epoch == described.assignment_epoch,
        "members": sorted(
            [
                [
                    member.client_id,
                    member.subscribed_topic_names == [],
                    sorted(
                        number
                        for topic in member.assignment.topic_partitions
                        for number in topic.partitions
                    ),
                ]
                for member in described.members
            ]
        ),
    }


def share_heartbeat_of_one_member(harness: CaseHarness) -> Any:
    topic, group = harness.topic(partitions=3), harness.name("group")
    member = GroupMember(harness, harness.coordinator(group), group)
    first = member.heartbeat([topic])
    partitions = member.joined([topic], 3)
    seen = {
        "first": [first.error_code, first.member_epoch, first.assignment is not None],
        "partitions": partitions,
        "described": _without_ids(_described(member.client, group)),
        "nothing new": member.heartbeat().assignment,
        "full": member.heartbeat([topic]).assignment is not None,
        "too high": member.heartbeat(epoch=99).error_code,
        "too low": member.heartbeat(epoch=0).error_code if member.epoch > 1 else None,
    }
    left = member.heartbeat(epoch=-1)
    return seen | {
        "left": [left.error_code, left.member_epoch],
        "after that": member.heartbeat().error_code,
        "left again": member.heartbeat(epoch=-1).error_code,
        "empty": _without_ids(_described(member.client, group)),
    }


def share_heartbeat_errors(harness: CaseHarness) -> Any:
    topic, group = harness.topic(), harness.name("group")
    client = harness.coordinator(group)

    def sent(**fields: Any) -> Any:
        given: dict[str, Any] = {
            "group_id": group,
            "member_id": new_id(),
            "member_epoch": 0,
            "rack_id": None,
            "subscribed_topic_names": [topic],
        }
        answer = call(client, "ShareGroupHeartbeat", **(given | fields))
        return [answer.error_code, answer.member_id is None]

    return {
        "no group": sent(group_id=""),
        "no member": sent(member_id=""),
        "empty rack": sent(rack_id=""),
        "no topics": sent(subscribed_topic_names=None),
        "empty topics": sent(subscribed_topic_names=[]),
        "epoch -2": sent(member_epoch=-2),
        "unknown member": sent(member_epoch=3),
        "unknown member leaves": sent(member_epoch=-1),
    }


def share_partitions_of_two_members(harness: CaseHarness) -> Any:
    seen = {}
    for count in (1, 4):
        topic = harness.topic(f"topic-{count}", partitions=count)
        group = harness.name(f"group-{count}")
        client = harness.coordinator(group)
        first, second = (GroupMember(harness, client, group) for _ in range(2))
        first.joined([topic], count)
        # How many of the four it gets depends on the members' ids, which are random.
        theirs = second.joined([topic], 1)

        ours = first.heartbeat([topic]).assignment
        numbers = sorted(number for each in ours.topic_partitions for number in each.partitions)
        seen[count] = {"all": sorted({*numbers, *theirs}), "none": not numbers or not theirs}
    return seen


def share_group_administration(harness: CaseHarness) -> Any:
    topic, group = harness.topic(), harness.name("group")
    member = GroupMember(harness, harness.coordinator(group), group)
    member.joined([topic], 1)
    client = member.client

    def listed() -> list[list[str]]:
        answer = client.call("ListGroups", 5, states_filter=[], types_filter=["share"])
        return [
            [each.protocol_type, each.group_state, each.group_type]
            for each in answer.groups
            if each.group_id == group
        ]

    def deleted() -> Any:
        return client.call("DeleteGroups", 2, groups_names=[group]).results[0].error_code

    seen = {
        "listed": listed(),
        "not empty": deleted(),
        "describe as classic": client.call(
            "DescribeGroups", 6, groups=[group], include_authorized_operations=False
        )
        .groups[0]
        .error_code,
    }
    member.heartbeat(epoch=-1)
    return seen | {
        "empty": listed(),
        "deleted": deleted(),
        "again": deleted(),
        "described": _described(client, group).error_code,
    }


def _offsets(client: RawClient, group: str, topics: Any) -> Any:
    answer = call(
        client, "DescribeShareGroupOffsets", groups=[{"group_id": group, "topics": topics}]
    ).groups[0]
    return {
        "error": answer.error_code,
        # Kafka keeps topics in a hash map: their names decide the order.
        "topics": sorted(
            [each.partition_index, each.start_offset, each.error_code]
            for topic in answer.topics
            for each in topic.partitions
        ),
    }


def _altered(client: RawClient, group: str, topic: str, *offsets: tuple[int, int]) -> Any:
    answer = call(
        client,
        "AlterShareGroupOffsets",
        group_id=group,
        topics=[
            {
                "topic_name": topic,
                "partitions": [
                    {"partition_index": index, "start_offset": offset} for index, offset in offsets
                ],
            }
        ],
    )
    return [
        answer.error_code,
        [
            [each.partition_index, each.error_code]
            for found in answer.responses
            for each in found.partitions
        ],
    ]


def _deleted(client: RawClient, group: str, topic: str) -> Any:
    answer = call(client, "DeleteShareGroupOffsets", group_id=group, topics=[{"topic_name": topic}])
    return [answer.error_code, [each.error_code for each in answer.responses]]


def share_group_offsets(harness: CaseHarness) -> Any:
    topic, group = harness.topic(partitions=2), harness.name("group")
    other = harness.topic("other")
    member = GroupMember(harness, harness.coordinator(group), group)
    client = member.client
    wanted = [{"topic_name": topic, "partitions": [0, 1, 9]}]
    unknown = [{"topic_name": "none", "partitions": [0]}]
    seen: dict[str, Any] = {
        "no group": _offsets(client, group, wanted),
        "all of no group": _offsets(client, group, None),
        "delete of no group": _deleted(client, group, topic),
    }
    member.joined([topic], 2)
    seen |= {
        "described": _offsets(client, group, wanted),
        "all": _offsets(client, group, None),
        "unknown": _offsets(client, group, unknown),
        "of another topic": _offsets(client, group, [{"topic_name": other, "partitions": [0]}]),
        "delete with members": _deleted(client, group, topic),
    }
    member.heartbeat(epoch=-1)
    return seen | {
        "deleted": _deleted(client, group, topic),
        "deleted again": _deleted(client, group, topic),
        "delete an unknown topic": _deleted(client, group, "none"),
        "at last": _offsets(client, group, None),
        "named at last": _offsets(client, group, wanted),
    }


def share_group_offsets_altered(harness: CaseHarness) -> Any:
    topic, group = harness.topic(partitions=2), harness.name("group")
    other = harness.topic("other")
    member = GroupMember(harness, harness.coordinator(group), group)
    client = member.client
    seen = {"no group": _altered(client, group, topic, (0, 3))}
    member.joined([topic], 2)
    seen["with members"] = _altered(client, group, topic, (0, 3))
    member.heartbeat(epoch=-1)
    return seen | {
        "altered": _altered(client, group, topic, (0, 3), (9, 3)),
        "another topic": _altered(client, group, other, (0, 5)),
        "an unknown topic": _altered(client, group, "none", (0, 5)),
        "all then": _offsets(client, group, None),
    }


CASES = (
    share_heartbeat_of_one_member,
    share_heartbeat_errors,
    share_partitions_of_two_members,
    share_group_administration,
    share_group_offsets,
)
#: Kafka 4.1.1 answers without a result, and alters nothing.
NEXT_CASES = (share_group_offsets_altered,)

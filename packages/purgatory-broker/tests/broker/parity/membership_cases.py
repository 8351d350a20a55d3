"""SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.members import (
    LONG_MS,
    newcomer,
    only_member,
    pair,
    protocols,
    state_of,
)

_SHORT_MS = 1_500


@case
def two_members_join_and_one_leaves(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group)
    second = newcomer(harness, group)
    second.start_join(protocols=protocols("range", data=b"of the second"))
    seen: dict[str, Any] = {"rejoin error": harness.until(leader.heartbeat_error)}
    leader.start_join()
    answer, other = leader.joined(), second.joined()
    seen |= {"leader": answer, "second": other}
    seen["heartbeat before sync"] = leader.heartbeat()
    second.start_sync()
    seen["leader synced"] = leader.sync(leader, second)
    seen["second synced"] = second.client.read()
    seen["heartbeat"] = second.heartbeat()
    seen["left"] = second.leave()
    seen["second's heartbeat"] = second.heartbeat()
    seen["leader's heartbeat"] = leader.heartbeat()
    seen["alone again"] = leader.join()
    seen["alone synced"] = leader.sync(leader)
    seen["leader left"] = leader.leave()
    return seen | {"state": state_of(harness, group)}


@case
def leader_may_assign_nothing(harness: CaseHarness) -> Any:
    leader = newcomer(harness, harness.name("group"))
    leader.join()
    return {"synced": leader.sync(), "again": leader.sync()}


@case
def sync_again_answers_the_assignment(harness: CaseHarness) -> Any:
    leader = only_member(harness, harness.name("group"))
    return {
        "again": leader.sync(leader),
        "with another assignment": leader.sync(
            assignments=[{"member_id": leader.id, "assignment": b"new"}]
        ),
    }


@case
def sync_errors(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group)
    return {
        "unknown group": leader.with_group(harness, harness.name("none")).sync(),
        "empty group": leader.sync(group_id=""),
        "unknown member": leader.sync(member_id="nobody"),
        "generation too low": leader.sync(generation_id=leader.generation - 1),
        "generation too high": leader.sync(generation_id=leader.generation + 1),
        "another protocol": leader.sync(protocol_name="roundrobin"),
        "another protocol type": leader.sync(protocol_type="connect"),
        "no protocol": leader.sync(protocol_name=None, protocol_type=None),
    }


@case
def sync_waits_for_the_leader(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader, second = pair(harness, group)
    third = newcomer(harness, group)
    third.start_join()
    for each in (leader, second):
        harness.until(each.heartbeat_error)
        each.start_join()
    for each in (leader, second, third):
        each.joined()
    second.start_sync()
    third.start_sync()
    state = state_of(harness, group)
    leader.start_sync(leader, second)
    return {"state": state, "answers": [each.client.read() for each in (leader, second, third)]}


@case
def sync_without_the_leader_times_out(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group, rebalance_timeout_ms=_SHORT_MS)
    second = newcomer(harness, group)
    second.start_join(rebalance_timeout_ms=_SHORT_MS)
    harness.until(leader.heartbeat_error)
    leader.join(rebalance_timeout_ms=_SHORT_MS)
    second.joined()
    second.start_sync()
    seen: dict[str, Any] = {
        "second": harness.timed(_SHORT_MS, second.client.read),
        "state": state_of(harness, group),
    }
    seen["leader's heartbeat"] = leader.heartbeat()
    seen["second joins again"] = second.join(rebalance_timeout_ms=_SHORT_MS)
    return seen


@case
def sync_while_the_group_rebalances(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group)
    second = newcomer(harness, group)
    second.start_join()
    harness.until(leader.heartbeat_error)
    return {"state": state_of(harness, group), "sync": leader.sync(leader)}


@case
def waiting_sync_is_ended_by_a_new_member(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader, second = pair(harness, group)
    leader.start_join()
    harness.until(second.heartbeat_error)
    second.start_join()
    leader.joined()
    second.joined()
    second.start_sync()
    third = newcomer(harness, group)
    third.start_join()
    return {
        "waiting sync": harness.timed(LONG_MS, second.client.read),
        "leader's late sync": leader.sync(leader, second),
    }


@case
def heartbeat_errors(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = only_member(harness, group)
    return {
        "good": member.heartbeat(),
        "version 0": member.heartbeat(0),
        "unknown group": member.with_group(harness, harness.name("none")).heartbeat(),
        "empty group": member.heartbeat(group_id=""),
        "unknown member": member.heartbeat(member_id="nobody"),
        "empty member": member.heartbeat(member_id=""),
        "generation too low": member.heartbeat(generation_id=member.generation - 1),
        "generation too high": member.heartbeat(generation_id=member.generation + 1),
    }


@case
def heartbeat_of_a_pending_member(harness: CaseHarness) -> Any:
    pending = newcomer(harness, harness.name("group"))
    return pending.heartbeat(generation_id=0)


@case
def leave_errors(harness: CaseHarness) -> Any:
    group = harness.name("group")
    member = only_member(harness, group)
    client, elsewhere = member.client, harness.coordinator(harness.name("none"))
    nobody = {"member_id": "nobody", "group_instance_id": None}
    seen = {
        "unknown group": elsewhere.call(
            "LeaveGroup", 3, group_id=harness.name("none"), members=[nobody]
        ),
        "unknown group, version 0": elsewhere.call(
            "LeaveGroup", 0, group_id=harness.name("none"), member_id="nobody"
        ),
        "empty group": client.call("LeaveGroup", 3, group_id="", members=[nobody]),
        "unknown member": client.call("LeaveGroup", 4, group_id=group, members=[nobody]),
        "unknown member, version 2": client.call(
            "LeaveGroup", 2, group_id=group, member_id="nobody"
        ),
        "unknown instance": client.call(
            "LeaveGroup", 5, group_id=group, members=[{"member_id": "", "group_instance_id": "i"}]
        ),
        "no members": client.call("LeaveGroup", 5, group_id=group, members=[]),
    }
    both = [nobody, {"member_id": member.id, "group_instance_id": None}]
    seen["one of two"] = client.call("LeaveGroup", 5, group_id=group, members=both)
    return seen | {
        "again, version 1": client.call("LeaveGroup", 1, group_id=group, member_id=member.id)
    }


@case
def leave_of_a_pending_member(harness: CaseHarness) -> Any:
    pending = newcomer(harness, harness.name("group"))
    return {"left": pending.leave(), "joins after all": pending.join()}


@case
def leave_of_a_member_that_waits_in_a_join(harness: CaseHarness) -> Any:
    group = harness.name("group")
    leader = only_member(harness, group)
    second = newcomer(harness, group)
    second.start_join()
    harness.until(leader.heartbeat_error)
    identity = {"member_id": second.id, "group_instance_id": None, "reason": "enough"}
    left = harness.connect_like(second.client).call(
        "LeaveGroup", 5, group_id=group, members=[identity]
    )
    return {
        "left": left,
        "its join": harness.timed(LONG_MS, second.joined),
        "leader": leader.join(),
    }

"""ACLs where an authorizer is configured: stored, described, deleted, and what they allow."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case_harness import CaseHarness, fetch_fields, produce_fields
from tests.broker.parity.raw import ConnectionClosedError, RawClient
from tests.broker.parity.secured import log_in, secured_case

_ANY, _ALL, _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 1, 2, 3, 4, 5, 6, 7, 8
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = 10, 11
_MATCH, _LITERAL, _PREFIXED = 2, 3, 4
_DENY, _ALLOW = 2, 3
_TOPIC, _GROUP, _CLUSTER = 2, 3, 4


def _acl(name: str, operation: int = _READ, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type": _TOPIC,
        "resource_name": name,
        "resource_pattern_type": _LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": operation,
        "permission_type": _ALLOW,
    } | fields


def _filter(name: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": _TOPIC,
        "resource_name_filter": name,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    } | fields


def _create(harness: CaseHarness, *creations: dict[str, Any]) -> Any:
    return harness.node_0.call("CreateAcls", 3, creations=list(creations))


def _stored(harness: CaseHarness, *creations: dict[str, Any]) -> None:
    """Store ACLs, and wait until the node knows the last one."""
    created = _create(harness, *creations)
    assert not any(each.error_code for each in created.results), created
    last = creations[-1]
    wanted = _filter(
        last["resource_name"],
        resource_type_filter=last["resource_type"],
        pattern_type_filter=last["resource_pattern_type"],
        principal_filter=last["principal"],
        host_filter=last["host"],
        operation=last["operation"],
        permission_type=last["permission_type"],
    )
    harness.until(lambda: bool(harness.node_0.call("DescribeAcls", 3, **wanted).resources))


def _described(harness: CaseHarness, version: int = 3, **fields: Any) -> Any:
    """Return the ACLs that a filter selects, except for those of other cases."""
    answer = harness.node_0.call("DescribeAcls", version, **_filter(None, **fields))
    token = harness.name("")
    found = [
        [
            *(each.resource_type, each.resource_name, each.pattern_type),
            *(acl.principal, acl.host, acl.operation, acl.permission_type),
        ]
        for each in answer.resources
        for acl in each.acls
        if token in each.resource_name
    ]
    return {"error": answer.error_code, "acls": sorted(found)}


@secured_case
def acls_are_described_by_filters(harness: CaseHarness) -> Any:
    name = harness.name("orders")
    _stored(
        harness,
        _acl(name),
        _acl(name, _WRITE, permission_type=_DENY),
        _acl(name, host="10.0.0.1"),
        _acl(name, principal="User:*"),
        _acl(name, resource_type=_GROUP),
        _acl(name, resource_pattern_type=_PREFIXED),
        _acl(name + "-1", resource_pattern_type=_PREFIXED),
        _acl(name, _ALL),
    )
    return {
        "all": _described(harness, resource_type_filter=_ANY),
        "of a name": _described(harness, resource_name_filter=name),
        "literal": _described(harness, resource_name_filter=name, pattern_type_filter=_LITERAL),
        "prefixed": _described(harness, resource_name_filter=name, pattern_type_filter=_PREFIXED),
        "matching": _described(
            harness, resource_name_filter=name + "-17", pattern_type_filter=_MATCH
        ),
        "matching all": _described(harness, pattern_type_filter=_MATCH),
        "of a principal": _described(harness, principal_filter="User:*"),
        "of a host": _described(harness, host_filter="10.0.0.1"),
        "of an operation": _described(harness, operation=_WRITE),
        "of all operations": _described(harness, operation=_ALL),
        "denials": _described(harness, permission_type=_DENY),
        "of groups": _described(harness, resource_type_filter=_GROUP),
        "v1": _described(harness, 1, resource_name_filter=name, pattern_type_filter=_LITERAL),
    }


@secured_case
def acls_are_deleted_by_filters(harness: CaseHarness) -> Any:
    name = harness.name("orders")
    other = harness.name("others")
    _stored(harness, _acl(name), _acl(name, _WRITE), _acl(name), _acl(other))
    filters = [_filter(name, operation=_READ), _filter(name), _filter(harness.name("none"))]
    deleted = harness.node_0.call("DeleteAcls", 3, filters=filters)
    harness.until(lambda: len(_described(harness)["acls"]) == 1)
    return {
        "deleted": deleted,
        "again": harness.node_0.call("DeleteAcls", 3, filters=filters[:1]),
        "left": _described(harness),
    }


@secured_case
def acls_that_are_refused(harness: CaseHarness) -> Any:
    name = harness.name("orders")
    seen: dict[str, Any] = {}
    for label, fields in {
        "no name": {"resource_name": ""},
        "another cluster": {"resource_type": _CLUSTER, "resource_name": "another"},
        "any type": {"resource_type": _ANY},
        "any pattern": {"resource_pattern_type": _ANY},
        "matching": {"resource_pattern_type": _MATCH},
        "any operation": {"operation": _ANY},
        "any permission": {"permission_type": _ANY},
        "unknown type": {"resource_type": 100},
        "no type": {"resource_type": 0},
        "no operation": {"operation": 0},
        "unknown pattern": {"resource_pattern_type": 100},
        "unknown operation": {"operation": 100},
        "unknown permission": {"permission_type": 100},
        "no principal": {"principal": ""},
        "no type of principal": {"principal": "alice"},
        "a group": {"principal": "Group:readers"},
        "an empty user": {"principal": "User:"},
        "an empty type": {"principal": ":alice"},
        "no host": {"host": ""},
        "a host's name": {"host": "localhost"},
        "an operation of others": {"operation": 12},
        "two phases": {"resource_type": 5, "operation": 15},
    }.items():
        client = harness.connect(harness.addresses()[0])
        try:
            answer = client.call(
                "CreateAcls", 3, creations=[_acl(name) | fields, _acl(harness.name("valid"))]
            )
            seen[label] = [each.error_code for each in answer.results]
        except ConnectionClosedError:
            seen[label] = "closed"
    return seen


@secured_case
def filters_of_acls_that_are_refused(harness: CaseHarness) -> Any:
    seen: dict[str, Any] = {}
    for label, fields in {
        "no type": {"resource_type_filter": 0},
        "unknown type": {"resource_type_filter": 100},
        "unknown pattern": {"pattern_type_filter": 100},
        "no operation": {"operation": 0},
        "unknown operation": {"operation": 100},
        "unknown permission": {"permission_type": 100},
        "no name": {"resource_name_filter": ""},
        "no principal": {"principal_filter": ""},
    }.items():
        for api in ("DescribeAcls", "DeleteAcls"):
            client = harness.connect(harness.addresses()[0])
            wanted = _filter(harness.name(), **fields)
            body: dict[str, Any] = {"filters": [wanted]} if api == "DeleteAcls" else wanted
            try:
                seen[f"{api}, {label}"] = client.call(api, 3, **body)
            except ConnectionClosedError:
                seen[f"{api}, {label}"] = "closed"
    return seen


def _operations(client: RawClient, *topics: str) -> dict[str, Any]:
    answer = client.call(
        "Metadata",
        9,
        topics=[{"name": topic} for topic in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    return {
        each.name: [each.error_code, sorted(each.authorized_operations or ())]
        for each in answer.topics
    }


@secured_case
def acls_allow_and_deny(harness: CaseHarness) -> Any:
    name = harness.name
    prefixed = {"resource_pattern_type": _PREFIXED}
    denied = {"permission_type": _DENY}
    rules: dict[str, list[dict[str, Any]]] = {
        "all": [_acl("", _ALL)],
        "implied": [_acl("", operation) for operation in (_READ, _ALTER_CONFIGS)],
        "described": [_acl("", _DESCRIBE)],
        "created": [_acl("", _CREATE)],
        "denied": [_acl("", _ALL), _acl("", _WRITE, **denied)],
        "denied-describe": [_acl("", _ALL), _acl("", _DESCRIBE, **denied)],
        "denied-read": [_acl("", _READ), _acl("", _WRITE), _acl("", _READ, **denied)],
        "denied-all": [_acl("", _READ), _acl("", _ALL, **denied)],
        "denied-another": [_acl("", _READ), _acl("", _READ, principal="User:bob", **denied)],
        "denied-elsewhere": [_acl("", _READ), _acl("", _READ, host="10.0.0.1", **denied)],
        "denied-everybody": [_acl("", _READ), _acl("", _READ, principal="User:*", **denied)],
        "everybody": [_acl("", _DELETE, principal="User:*")],
        "elsewhere": [_acl("", _READ, host="10.0.0.1")],
        "here": [_acl("", _READ, host="127.0.0.1")],
        "another-type": [_acl("", _READ, principal="Group:alice")],
        "another-case": [_acl("", _READ, principal="User:Alice")],
        "another-resource": [_acl("", _READ, resource_type=_GROUP)],
        "nothing": [],
    }
    topics = {label: name(f"{label}-topic") for label in rules}
    prefixes = {
        "one-": [_acl("", _READ, **prefixed)],
        "one-two-": [_acl("", _WRITE, **prefixed)],
        "one-two-three": [_acl("", _READ, **denied, **prefixed)],
    }
    created = [name("one-").replace("one-", f"one-{end}") for end in ("x", "two-", "two-three")]
    answer = harness.node_0.call(
        "CreateTopics",
        5,
        topics=[
            {
                "name": topic,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for topic in [*topics.values(), *created]
        ],
        timeout_ms=10_000,
        validate_only=False,
    )
    assert not any(each.error_code for each in answer.topics), answer
    for topic in [*topics.values(), *created]:
        harness.delete_later(topic)
    acls = [
        acl | {"resource_name": topics[label]} for label, given in rules.items() for acl in given
    ]
    acls += [acl | {"resource_name": label} for label, given in prefixes.items() for acl in given]
    _stored(harness, *acls, _acl(name("last")))
    alice = log_in(harness, "alice")
    asked = [*topics.values(), *created]
    seen = {
        "alice": _operations(alice, *asked),
        "bob": _operations(log_in(harness, "bob"), *asked),
        "root": _operations(log_in(harness, "root"), *asked),
    }
    wildcard = _acl("*", _DESCRIBE_CONFIGS)
    _stored(harness, wildcard)
    seen["alice of all topics"] = _operations(alice, *asked)
    _stored(harness, wildcard | {"permission_type": _DENY, "operation": _READ})
    seen["alice, who may read none"] = _operations(alice, *asked)
    cleaned = [
        _filter("*", pattern_type_filter=_LITERAL),
        *(_filter(label, pattern_type_filter=_PREFIXED) for label in prefixes),
    ]
    harness.node_0.call("DeleteAcls", 3, filters=cleaned)
    harness.until(lambda: _operations(alice, topics["described"])[topics["described"]][1] == [8])
    return seen


@secured_case
def topics_that_a_client_may_not_see(harness: CaseHarness) -> Any:
    seen_topic, hidden = harness.topic("seen"), harness.topic("hidden")
    new, may_create = harness.name("new"), harness.name("created")
    harness.delete_later(may_create)
    _stored(
        harness,
        _acl(seen_topic, _DESCRIBE),
        _acl(new, _READ),
        _acl(may_create, _READ),
        _acl(may_create, _CREATE),
    )
    alice = log_in(harness, "alice")
    token = harness.name("")

    def listed(version: int) -> Any:
        fields = {"allow_auto_topic_creation": False} if version >= 4 else {}
        answer = alice.call("Metadata", version, topics=[] if not version else None, **fields)
        return sorted(each.name for each in answer.topics if token in each.name)

    def named(version: int, **fields: Any) -> Any:
        topics = [{"name": each} for each in (seen_topic, hidden, new, may_create)]
        answer = alice.call("Metadata", version, topics=topics, **fields)
        return {
            each.name: [each.error_code, each.is_internal, len(each.partitions)]
            for each in answer.topics
        }

    def by_id(*topics: str) -> Any:
        ids = [{"name": None, "topic_id": harness.topic_id(each)} for each in topics]
        answer = alice.call("Metadata", 12, topics=ids, allow_auto_topic_creation=False)
        return answer.topics

    def deleted(*topics: dict[str, Any]) -> Any:
        # Kafka shuffles the responses.
        answer = alice.call("DeleteTopics", 6, topics=list(topics), timeout_ms=10_000)
        return sorted(
            [str(each.name), each.topic_id is None, each.error_code] for each in answer.responses
        )

    none = {"topic_id": None}
    return {
        "all": listed(9),
        "all v1": listed(1),
        "all v0": listed(0),
        "named": named(9, allow_auto_topic_creation=False),
        "by id": by_id(seen_topic, hidden),
        "created": named(9, allow_auto_topic_creation=True),
        "deleted": deleted(
            {"name": seen_topic, **none},
            {"name": hidden, **none},
            {"name": None, "topic_id": harness.topic_id(seen_topic)},
            {"name": None, "topic_id": harness.topic_id(hidden)},
            {"name": harness.name("none"), **none},
            {"name": new, **none},
        ),
    }


@secured_case
def topics_that_a_client_may_create(harness: CaseHarness) -> Any:
    first, second, third = (harness.name(each) for each in ("first", "second", "third"))
    _stored(
        harness,
        _acl(first, _CREATE),
        _acl(second, _CREATE),
        _acl(second, _DESCRIBE_CONFIGS),
    )
    alice = log_in(harness, "alice")
    created = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = alice.call(
        "CreateTopics",
        7,
        topics=[created | {"name": each} for each in (first, second, third, third, "a/b")],
        timeout_ms=10_000,
        validate_only=True,
    )
    return [
        [
            *(each.name, each.error_code, each.topic_config_error_code),
            *(each.num_partitions, each.replication_factor, bool(each.configs)),
        ]
        for each in sorted(answer.topics, key=lambda each: str(each.name))
    ]


@secured_case
def fetch_session_without_permission(harness: CaseHarness) -> Any:
    topic = harness.topic()
    other = harness.topic("other")
    harness.produce(harness.node_0, topic, batch(b"value"))
    _stored(harness, _acl(topic))
    alice = log_in(harness, "alice")
    fields = fetch_fields(topic) | {"session_epoch": 0}
    fields["topics"] += fetch_fields(other)["topics"]
    opened = alice.call("Fetch", 12, **fields)
    following = fetch_fields(topic, {}) | {"session_id": opened.session_id}
    second = alice.call("Fetch", 12, **following | {"session_epoch": 1})
    _stored(harness, _acl(other))
    third = alice.call("Fetch", 12, **following | {"session_epoch": 2})
    harness.node_0.call("DeleteAcls", 3, filters=[_filter(topic)])
    harness.until(lambda: topic not in str(_described(harness)["acls"]))
    fourth = alice.call("Fetch", 12, **following | {"session_epoch": 3})

    def shown(answer: Any) -> Any:
        return sorted(
            [each.topic, partition.error_code, len(partition.records or b"") > 0]
            for each in answer.responses
            for partition in each.partitions
        )

    return [shown(each) for each in (opened, second, third, fourth)]


@secured_case
def produce_without_permission(harness: CaseHarness) -> Any:
    allowed, denied = harness.topic(), harness.topic("denied")
    _stored(harness, _acl(allowed, _WRITE))
    alice = log_in(harness, "alice")
    fields = produce_fields(allowed, [batch(b"value")])
    fields["topic_data"] += produce_fields(denied, [batch(b"value")])["topic_data"]
    fields["topic_data"] += produce_fields(harness.name("none"), [batch(b"value")])["topic_data"]
    answer = alice.call("Produce", 9, **fields)
    by_id = alice.call(
        "Produce",
        13,
        **produce_fields("", [batch(b"value")], topic_id=harness.topic_id(denied)),
    )
    unanswered = produce_fields(denied, [batch(b"value")], acks=0)
    alice.start("Produce", 9, answered=False, **unanswered)
    return {
        "named": answer,
        "by id": by_id,
        "without acknowledgement": alice.is_closed(within=2),
    }


@secured_case
def groups_that_a_client_may_see(harness: CaseHarness) -> Any:
    groups = [harness.name(each) for each in ("seen", "hidden")]
    topic = harness.topic()
    other = harness.topic("other")
    for group in groups:
        client = harness.coordinator(group)
        offset = {"committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
        answer = client.call(
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[
                {"name": each, "partitions": [{"partition_index": 0, **offset}]}
                for each in (topic, other)
            ],
        )
        assert answer.topics[0].partitions[0].error_code == 0, answer
    _stored(harness, _acl(topic), _acl(groups[0], _DESCRIBE, resource_type=_GROUP))
    alice = log_in(harness, "alice")
    listed = alice.call("ListGroups", 4, states_filter=[]).groups
    described = alice.call(
        "DescribeGroups", 5, groups=groups, include_authorized_operations=True
    ).groups
    fetched = [{"name": each, "partition_indexes": [0]} for each in (topic, other)]
    return {
        "listed": [each for each in listed if harness.name("") in each.group_id],
        "described": sorted(described, key=lambda each: str(each.group_id)),
        "fetched": alice.call(
            "OffsetFetch",
            8,
            groups=[
                {"group_id": group, "topics": topics}
                for group in groups
                for topics in (None, fetched)
            ],
            require_stable=False,
        ),
        "fetched v7": alice.call(
            "OffsetFetch", 7, group_id=groups[0], topics=None, require_stable=False
        ),
        "fetched v7 by name": alice.call(
            "OffsetFetch", 7, group_id=groups[0], topics=fetched, require_stable=False
        ),
        "fetched v7 of hidden": alice.call(
            "OffsetFetch", 7, group_id=groups[1], topics=fetched, require_stable=False
        ),
    }

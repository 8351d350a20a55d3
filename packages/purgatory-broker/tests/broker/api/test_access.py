"""Every API asks the authorizer for what Kafka asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.messages import read_header, read_request
from purgatory_broker.api.registry import APIS
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource, Acls
from purgatory_broker.metadata.authorizer import Authorizer, Requester
from purgatory_broker.request_context import Client, RequestContext
from tests.broker.hostile.sample_requests import TOPIC, frame
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario

#: What a client needs that may do nothing but what it is asked for, by API: "OPERATION of a type",
#: alternatives and all versions together. APIs that anybody may use have no entry's text.
ASKED = {
    "AddOffsetsToTxn": "READ of GROUP, WRITE of TRANSACTIONAL_ID",
    "AddPartitionsToTxn": ("CLUSTER_ACTION of CLUSTER, WRITE of TOPIC, WRITE of TRANSACTIONAL_ID"),
    "AlterClientQuotas": "ALTER_CONFIGS of CLUSTER",
    "AlterConfigs": "ALTER_CONFIGS of TOPIC",
    "AlterPartitionReassignments": "ALTER of CLUSTER",
    "AlterShareGroupOffsets": "READ of GROUP, READ of TOPIC",
    "AlterUserScramCredentials": "ALTER of CLUSTER",
    "ApiVersions": "",
    "ConsumerGroupDescribe": "DESCRIBE of GROUP",
    "ConsumerGroupHeartbeat": "DESCRIBE of TOPIC, READ of GROUP",
    "CreateAcls": "ALTER of CLUSTER",
    "CreatePartitions": "ALTER of TOPIC",
    "CreateTopics": "CREATE of CLUSTER, CREATE of TOPIC, DESCRIBE_CONFIGS of TOPIC",
    "DeleteAcls": "ALTER of CLUSTER",
    "DeleteGroups": "DELETE of GROUP",
    "DeleteRecords": "DELETE of TOPIC",
    "DeleteShareGroupOffsets": "DELETE of GROUP, READ of TOPIC",
    "DeleteShareGroupState": "CLUSTER_ACTION of CLUSTER",
    "DeleteTopics": "DELETE of CLUSTER, DELETE of TOPIC, DESCRIBE of TOPIC",
    "DescribeAcls": "DESCRIBE of CLUSTER",
    "DescribeClientQuotas": "DESCRIBE_CONFIGS of CLUSTER",
    # For the bits of the authorized operations, which only some samples ask for.
    "DescribeCluster": "",
    "DescribeConfigs": "DESCRIBE_CONFIGS of TOPIC",
    "DescribeGroups": "DESCRIBE of GROUP",
    "DescribeLogDirs": "DESCRIBE of CLUSTER",
    "DescribeProducers": "READ of TOPIC",
    "DescribeQuorum": "DESCRIBE of CLUSTER",
    # All but DESCRIBE are for the bits of the authorized operations.
    "DescribeTopicPartitions": (
        "ALTER of TOPIC, ALTER_CONFIGS of TOPIC, CREATE of TOPIC, DELETE of TOPIC, "
        "DESCRIBE of TOPIC, DESCRIBE_CONFIGS of TOPIC, READ of TOPIC, WRITE of TOPIC"
    ),
    "DescribeShareGroupOffsets": "DESCRIBE of GROUP, DESCRIBE of TOPIC",
    "DescribeTransactions": "DESCRIBE of TRANSACTIONAL_ID",
    "DescribeUserScramCredentials": "DESCRIBE of CLUSTER",
    "ElectLeaders": "ALTER of CLUSTER",
    "EndTxn": "WRITE of TRANSACTIONAL_ID",
    "Fetch": "READ of TOPIC",
    "FindCoordinator": "DESCRIBE of GROUP",
    "GetTelemetrySubscriptions": "",
    "Heartbeat": "READ of GROUP",
    "IncrementalAlterConfigs": "ALTER_CONFIGS of TOPIC",
    "InitProducerId": "IDEMPOTENT_WRITE of CLUSTER, WRITE of any TOPIC",
    "InitializeShareGroupState": "CLUSTER_ACTION of CLUSTER",
    "JoinGroup": "READ of GROUP",
    "LeaveGroup": "READ of GROUP",
    "ListConfigResources": "DESCRIBE_CONFIGS of CLUSTER",
    "ListGroups": "DESCRIBE of CLUSTER",
    "ListOffsets": "DESCRIBE of TOPIC",
    "ListPartitionReassignments": "DESCRIBE of CLUSTER",
    "ListTransactions": "",
    "Metadata": "DESCRIBE of TOPIC",
    "OffsetCommit": "READ of GROUP, READ of TOPIC",
    "OffsetDelete": "DELETE of GROUP, READ of TOPIC",
    "OffsetFetch": "DESCRIBE of GROUP, DESCRIBE of TOPIC",
    "OffsetForLeaderEpoch": "CLUSTER_ACTION of CLUSTER, DESCRIBE of TOPIC",
    "Produce": "WRITE of TOPIC",
    "PushTelemetry": "",
    "ReadShareGroupState": "CLUSTER_ACTION of CLUSTER",
    "ReadShareGroupStateSummary": "CLUSTER_ACTION of CLUSTER",
    "SaslAuthenticate": "",
    "SaslHandshake": "",
    # READ of TOPIC is asked in a session alone, which the samples do not have.
    "ShareAcknowledge": "READ of GROUP",
    "ShareFetch": "READ of GROUP",
    "ShareGroupDescribe": "DESCRIBE of GROUP",
    "ShareGroupHeartbeat": "DESCRIBE of TOPIC, READ of GROUP",
    "SyncGroup": "READ of GROUP",
    "TxnOffsetCommit": "READ of GROUP, READ of TOPIC, WRITE of TRANSACTIONAL_ID",
    "WriteShareGroupState": "CLUSTER_ACTION of CLUSTER",
    "WriteTxnMarkers": "ALTER of CLUSTER, CLUSTER_ACTION of CLUSTER",
}
#: What shows less to a client without permission, instead of an error.
HIDES = {"ListGroups"}


@dataclasses.dataclass(frozen=True)
class _Asked(Authorizer):
    """Allows what ACLs of everything would allow, or nothing, and notes what it is asked."""

    answer: bool
    asked: set[str]

    def allows(
        self, requester: Requester, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        assert requester == Requester("User:alice", "10.0.0.1")
        self.asked.add(f"{operation.name} of {resource.name}")
        return self.answer

    def allows_some(
        self, requester: Requester, operation: AclOperation, resource: AclResource
    ) -> bool:
        self.asked.add(f"{operation.name} of any {resource.name}")
        return self.answer


def _answers(api: ServedApi[Any, Any], *, answer: bool) -> tuple[set[str], list[Any]]:
    """Return what is asked for the samples of an API, and the responses."""
    asked: set[str] = set()
    responses: list[Any] = []

    async def scenario(harness: ClusterHarness) -> None:
        node = harness.node(0)
        harness.cluster.create_topic(TOPIC)
        harness.cluster.create_offsets_topic()
        await harness.settle()
        node.authorizer = _Asked(Acls, frozenset(), False, answer, asked)
        for version in range(api.min_version, api.max_version + 1):
            raw = frame(api, version)
            header = read_header(raw, APIS)
            context = RequestContext(
                header,
                Client("app", "/10.0.0.1", user="alice"),
                lambda _context, response: responses.append(response),
                lambda _reason: None,
            )
            node.requests.handle(context, read_request(raw, header))
            await harness.settle()

    run_scenario(scenario, nodes=1)
    return asked, responses


def _codes(part: Any) -> Iterator[int]:
    if dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            if field.name.endswith("error_code"):
                yield getattr(part, field.name)
            yield from _codes(getattr(part, field.name))
    elif isinstance(part, list):
        for each in part:
            yield from _codes(each)


def test_each_api_has_a_row() -> None:
    assert sorted(api.name for api in APIS.values()) == sorted(ASKED)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_handler_asks_for_what_the_client_needs(api: ServedApi[Any, Any]) -> None:
    expected = set(filter(None, ASKED[api.name].split(", ")))
    denied, refusals = _answers(api, answer=False)
    allowed, _ = _answers(api, answer=True)
    assert denied | allowed == expected
    if expected and api.name not in HIDES:
        codes = {ErrorCode(code).name for each in refusals for code in _codes(each) if code}
        assert any(code.endswith("_AUTHORIZATION_FAILED") for code in codes), codes

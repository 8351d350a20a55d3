"""DescribeLogDirs: describe the log directory of a broker, and the sizes of its logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Directory = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = _Directory.DescribeLogDirsTopic
_Partition = _Topic.DescribeLogDirsPartition


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the logs of partitions; None is all of them."""

    topics: tuple[RequestedTopic, ...] | None


def _decode(message: Any, context: RequestContext) -> _Request:
    if message.topics is None:
        return _Request(None)
    return _Request(
        tuple(RequestedTopic(topic.topic, tuple(topic.partitions)) for topic in message.topics)
    )


def _describe_log_dirs(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    replicas = broker.replicas.replicas
    described = list(replicas.values())
    if request.topics is not None:
        wanted = {
            TopicPartition(name, index) for name, indexes in request.topics for index in indexes
        }
        described = [replica for key, replica in replicas.items() if key in wanted]
    topics: dict[str, list[Any]] = {}
    for replica in described:
        topics.setdefault(replica.key.topic, []).append(_describe(replica))
    space = broker.log_manager.space()
    context.reply(
        DescribeLogDirsResponse(
            error_code=0,
            results=[
                _Directory(
                    error_code=0,
                    log_dir=space.path,
                    topics=[
                        _Topic(name=name, partitions=partitions)
                        for name, partitions in topics.items()
                    ],
                    total_bytes=space.total_bytes,
                    usable_bytes=space.usable_bytes,
                )
            ],
        )
    )


def _describe(replica: Replica) -> Any:
    return _Partition(
        partition_index=replica.key.partition,
        partition_size=replica.log.size_bytes,
        # As in Kafka, the lag behind the high watermark, not behind the leader.
        offset_lag=max(replica.high_watermark - replica.log.end_offset, 0),
        is_future_key=False,
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    """Return the response with an error; old versions have one in each directory only."""
    directory = _Directory(error_code=int(code), log_dir="", topics=[])
    return DescribeLogDirsResponse(error_code=int(code), results=[directory])


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    """Return what a request names; one for all partitions names none."""
    return request_subjects(partitions=request.topics or ())


API = ServedApi(
    key=35,
    name="DescribeLogDirs",
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    min_version=1,
    max_version=4,
    decode=_decode,
    handle=_describe_log_dirs,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)

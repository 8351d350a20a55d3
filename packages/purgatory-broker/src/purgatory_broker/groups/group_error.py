"""Errors in responses to group requests."""

from __future__ import annotations

from purgatory_broker.wire.error_code import ErrorCode
from request_purgatory.errors import PurgatoryError


class GroupError(PurgatoryError):
    def __init__(self, code: ErrorCode, group_id: str) -> None:
        super().__init__(f"group {group_id!r}: {code.name}")
        self.code = code
        self.group_id = group_id

    def __reduce__(self) -> tuple[type[GroupError], tuple[ErrorCode, str]]:
        return type(self), (self.code, self.group_id)


_COORDINATOR_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    """Return the error code that a client gets when an append to the offsets topic failed.

    Source: Kafka's CoordinatorOperationExceptionHelper.
    """
    return _COORDINATOR_ERRORS.get(append_error, append_error)

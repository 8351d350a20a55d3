"""What can be made to go wrong with requests and responses."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeVar

from request_purgatory.broker.wire.apis import Api, api_named
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError, whole_number

KINDS = ("delay", "drop", "corrupt", "disconnect")
#: As often as there are requests.
ALWAYS = -1
#: Size and correlation id: what comes after is the response itself.
_HEADER_BYTES = 8


@dataclass(slots=True)
class RequestFault:
    """An error that requests of an API get instead of being handled."""

    api: Api
    code: ErrorCode
    times: int
    node: int | None


@dataclass(slots=True)
class ResponseFault:
    """What befalls responses of an API, which were handled.

    `delay`: sent after `delay_ms`. `drop`: never sent; the client waits until its own patience
    ends, and nothing else on the connection is answered. `corrupt`: bytes of the body are others,
    from `seed`. `disconnect`: the connection ends instead.
    """

    api: Api
    kind: str
    times: int
    node: int | None
    delay_ms: int = 0
    random: random.Random = field(default_factory=random.Random)

    def corrupted(self, frame: bytes) -> bytes:
        """The frame with some of its bytes changed.

        Its size and correlation id are as they were.
        """
        changed = bytearray(frame)
        body = len(changed) - _HEADER_BYTES
        for _ in range(max(1, body // 16)):
            if body > 0:
                changed[_HEADER_BYTES + self.random.randrange(body)] ^= self.random.randrange(
                    1, 256
                )
        return bytes(changed)


F = TypeVar("F", RequestFault, ResponseFault)


class Faults:
    """The faults of a cluster's requests and responses, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._requests: list[RequestFault] = []
        self._responses: list[ResponseFault] = []

    def fail_requests(
        self, api: str, error: str | int | ErrorCode, *, times: int = 1, node: int | None = None
    ) -> None:
        """Answer the next `times` requests of an API (-1: all) with an error, without handling them.

        Args:
            api: as in `Produce`.
            error: Kafka's name or number of the error, as in `NOT_ENOUGH_REPLICAS`.
            node: only of this node; None is of any.

        Raises:
            InvalidArgumentError: no such API, no such error, or times that is 0 or below -1.
        """
        self._requests.append(RequestFault(_api(api), _error(error), _times(times), node))

    def befall_responses(
        self,
        api: str,
        kind: str,
        *,
        times: int = 1,
        node: int | None = None,
        delay_ms: int = 0,
        seed: int | None = None,
    ) -> None:
        """Let something befall the next `times` responses of an API (-1: all): one of `KINDS`, see `ResponseFault`.

        Raises:
            InvalidArgumentError: no such API or kind, times that is 0 or below -1, or a delay that
                is none.
        """
        if kind not in KINDS:
            raise InvalidArgumentError("kind", f"one of {', '.join(KINDS)}", kind)
        if kind == "delay" and whole_number("delay_ms", delay_ms) < 1:
            raise InvalidArgumentError("delay_ms", "at least 1", delay_ms)
        self._responses.append(
            ResponseFault(_api(api), kind, _times(times), node, delay_ms, random.Random(seed))
        )

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        self._requests.clear()
        self._responses.clear()

    def error_for(self, node: int, api: Api) -> ErrorCode | None:
        """The error that a request is to get; counts as one time."""
        fault = self._next(self._requests, node, api) if self._requests else None
        return None if fault is None else fault.code

    def fault_for(self, node: int, api: Api) -> ResponseFault | None:
        """What is to befall a response; counts as one time."""
        return self._next(self._responses, node, api) if self._responses else None

    @staticmethod
    def _next(faults: list[F], node: int, api: Api) -> F | None:
        for fault in faults:
            if fault.api is api and fault.node in (None, node):
                if fault.times != ALWAYS:
                    fault.times -= 1
                    if fault.times == 0:
                        faults.remove(fault)
                return fault
        return None


def _api(name: str) -> Api:
    try:
        return api_named(name)
    except ValueError as error:
        raise InvalidArgumentError("api", str(error), name) from None


def _error(error: str | int | ErrorCode) -> ErrorCode:
    try:
        return ErrorCode[error.upper()] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise InvalidArgumentError(
            "error", "the name or number of an error of Kafka's protocol", error
        ) from None


def _times(times: int) -> int:
    if whole_number("times", times) < ALWAYS or times == 0:
        raise InvalidArgumentError("times", "at least 1, or -1 for always", times)
    return times

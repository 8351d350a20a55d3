"""Faults that tests inject into requests and responses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from request_purgatory.broker.wire.apis import Api
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.errors import InvalidArgumentError, whole_number

RESPONSE_FAULTS = ("delay", "drop", "corrupt", "disconnect")
#: The number of times of a fault that never ends.
ALWAYS = -1
#: The size and the correlation id, which precede the response itself.
_HEADER_BYTES = 8


@dataclass(slots=True)
class RequestFault:
    """An error response that requests of an API get without being handled."""

    api: Api
    code: ErrorCode
    times: int
    node: int | None


@dataclass(slots=True)
class ResponseFault:
    """A fault of an API's responses; the requests have been handled.

    Kinds:
        `delay`: Send the response after `delay_ms`.
        `drop`: Never send the response, nor any later one on the connection.
        `corrupt`: Change bytes of the response's body.
        `disconnect`: Close the connection instead of sending the response.
    """

    api: Api
    kind: str
    times: int
    node: int | None
    delay_ms: int = 0
    random: random.Random = field(default_factory=random.Random)

    def apply(
        self,
        frame: bytes | bytearray,
        write: Callable[[bytes | bytearray], None],
        disconnect: Callable[[], None],
    ) -> None:
        """Send a response with the fault.

        Args:
            frame: The frame of the response.
            write: Writes a frame to the connection.
            disconnect: Closes the connection.
        """
        if self.kind == "delay":
            asyncio.get_running_loop().call_later(self.delay_ms / 1_000, write, frame)
        elif self.kind == "corrupt":
            write(self.corrupt(frame))
        elif self.kind == "disconnect":
            disconnect()
        # After `drop` the request has no response, and no later one on this connection is handled.

    def corrupt(self, frame: bytes | bytearray) -> bytes:
        """Return a frame with some bytes changed, but the same size and correlation id."""
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
    """The faults of a cluster's requests and responses, in the order of their injection."""

    def __init__(self) -> None:
        self._requests: list[RequestFault] = []
        self._responses: list[ResponseFault] = []

    def add_request_error(
        self, api: Api, error: str | int, *, times: int, node: int | None
    ) -> None:
        """Answer the next requests of an API with an error, without handling them.

        Args:
            api: The API.
            error: The error's name or number in Kafka, as in `NOT_ENOUGH_REPLICAS`.
            times: The number of requests; -1 for all.
            node: The node; None for every node.

        Raises:
            InvalidArgumentError: The error is unknown, or `times` is 0 or below -1.
        """
        self._requests.append(RequestFault(api, _error(error), _times(times), node))

    def add_response_fault(
        self,
        api: Api,
        kind: str,
        *,
        times: int,
        node: int | None,
        delay_ms: int,
        seed: int | None,
    ) -> None:
        """Inject a fault into the next responses of an API.

        Args:
            api: The API.
            kind: One of `RESPONSE_FAULTS`; see `ResponseFault`.
            times: The number of responses; -1 for all.
            node: The node; None for every node.
            delay_ms: The delay of `delay` in milliseconds.
            seed: The seed of the random bytes of `corrupt`.

        Raises:
            InvalidArgumentError: The kind is unknown, `times` is 0 or below -1, or the delay is
                below 1.
        """
        if kind not in RESPONSE_FAULTS:
            raise InvalidArgumentError("kind", f"one of {', '.join(RESPONSE_FAULTS)}", kind)
        if kind == "delay" and whole_number("delay_ms", delay_ms) < 1:
            raise InvalidArgumentError("delay_ms", "at least 1", delay_ms)
        self._responses.append(
            ResponseFault(api, kind, _times(times), node, delay_ms, random.Random(seed))
        )

    def clear(self) -> None:
        """Remove all faults."""
        self._requests.clear()
        self._responses.clear()

    def take_request_error(self, node: int, api: Api) -> ErrorCode | None:
        """Return the error for a request, or None; counts as one of the fault's times."""
        fault = self._take(self._requests, node, api) if self._requests else None
        return None if fault is None else fault.code

    def take_response_fault(self, node: int, api: Api) -> ResponseFault | None:
        """Return the fault of a response, or None; counts as one of the fault's times."""
        return self._take(self._responses, node, api) if self._responses else None

    @staticmethod
    def _take(faults: list[F], node: int, api: Api) -> F | None:
        for fault in faults:
            if fault.api is api and fault.node in (None, node):
                if fault.times != ALWAYS:
                    fault.times -= 1
                    if fault.times == 0:
                        faults.remove(fault)
                return fault
        return None


def _error(error: str | int) -> ErrorCode:
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

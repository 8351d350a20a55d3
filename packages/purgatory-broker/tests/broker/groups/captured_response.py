"""The response to a request, as its client gets it."""

from __future__ import annotations

from typing import Any, Protocol

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.error_code import ErrorCode


class CapturedResponse:
    """The response to one request; the harness checks that there is exactly one."""

    def __init__(self, api: Api, version: int) -> None:
        self.api = api
        self.version = version
        self.responses: list[Any] = []

    def __call__(self, response: Any) -> None:
        """Take a response as it arrives at the client."""
        messages, version = self.api.messages, self.version
        out = messages.writer(version)
        messages.write_response(out, response, version)
        reader = messages.reader(bytes(out), 0, version)
        self.responses.append(messages.read_response(reader, version))

    @property
    def is_done(self) -> bool:
        """True if the request has been answered."""
        return bool(self.responses)

    @property
    def response(self) -> Any:
        """The response, which must have arrived."""
        (response,) = self.responses
        return response

    @property
    def error(self) -> ErrorCode:
        """The error code of the response."""
        return ErrorCode(self.response.error_code)


class Sender(Protocol):
    """Encodes a request, and lets the handler of its API handle it."""

    def send(self, request: Any, version: int) -> CapturedResponse: ...

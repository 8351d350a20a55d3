"""A client of a dashboard's server: requests, and its stream of events."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from request_purgatory.dashboard import Dashboard

TIME_LIMIT = 20.0


def port_of(url: str) -> int:
    """Return the port of a dashboard's address."""
    port = urlsplit(url).port
    assert port is not None, url
    return port


def request(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | str | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request, and return the response with its body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIME_LIMIT)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def press(port: int, panel: Any, action: Any, arguments: Any, **headers: str) -> tuple[int, Any]:
    """Send an action as the page's buttons do, and return the status and the answer."""
    sent = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"panel": panel, "action": action, "arguments": arguments})
    response, answer = request(port, "POST", "/actions", sent, body)
    return response.status, json.loads(answer)


class LivePage:
    """An open page: reads the events that the server sends."""

    def __init__(self, port: int) -> None:
        """Connect, and take the first event."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIME_LIMIT)
        self._connection.request("GET", "/events")
        self._response = self._connection.getresponse()
        assert self._response.status == 200, self._response.read()
        assert self._response.headers["Content-Type"] == "text/event-stream"
        self.samples: list[dict[str, Any]] = []
        self.hello = self.next("hello")

    def next(self, event: str = "reading") -> dict[str, Any]:
        """Return the data of the next event, which has to be of a kind, and note its samples."""
        lines = [self._response.readline().decode() for _ in range(3)]
        assert (lines[0], lines[1][:6], lines[2]) == (f"event: {event}\n", "data: ", "\n"), lines
        data: dict[str, Any] = json.loads(lines[1][6:])
        self.samples += data["samples"]
        return data

    def ends(self) -> bool:
        """Return True if the server ends the connection, after events that may still come."""
        try:
            while self._response.readline():
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        """Leave."""
        self._response.close()
        self._connection.close()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def refreshed(dashboard: Dashboard, page: LivePage) -> dict[str, Any]:
    """Have a reading taken, and return what the page gets."""
    dashboard.refresh()
    return page.next()

"""The HTTP interface, by plain requests."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import pytest

from purgatory_broker import Cluster
from purgatory_broker.schema_registry.registry import Registry
from purgatory_broker.schema_registry.rest_api import MAX_BODY_BYTES, MEDIA_TYPE

INT = json.dumps({"schema": '"int"'})


class Http:
    """Sends requests to an empty registry."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def __call__(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        self._connection.request(method, path, body)
        response = self._connection.getresponse()
        assert response.headers["Content-Type"] == MEDIA_TYPE
        return response.status, json.loads(response.read())


@pytest.fixture
def http(shared_cluster: Cluster) -> Any:
    shared_cluster.reset()
    url = shared_cluster.start_schema_registry()
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    yield Http(connection)
    connection.close()


def test_responses_have_the_fields_of_confluents(http: Http) -> None:
    status, registered = http("POST", "/subjects/s/versions", INT)
    assert (status, registered.pop("guid").count("-")) == (200, 4)
    assert registered == {"subject": "s", "version": 1, "id": 1, "schema": '"int"'}
    body = json.dumps({"schema": "{}", "schemaType": "JSON", "metadata": {"tags": {}}})
    http("POST", "/subjects/t/versions", body)
    assert http("GET", "/schemas/ids/1/schema") == (200, '"int"')
    assert http("GET", "/subjects/s/versions/latest/schema") == (200, '"int"')
    _, found = http("GET", "/schemas/ids/2")
    del found["guid"]
    assert found == {"schema": "{}", "schemaType": "JSON", "metadata": {"tags": {}}}
    assert http("GET", "/schemas/types") == (200, ["JSON", "PROTOBUF", "AVRO"])
    assert http("GET", "/contexts") == (200, ["."])
    assert http("GET", "/") == (200, {})


def test_lists_are_limited_by_the_query(http: Http) -> None:
    for subject in ("a", "b", "c"):
        http("POST", f"/subjects/{subject}/versions", INT)
    http("POST", "/subjects/a/versions", '{"schema": "\\"long\\""}')
    http("DELETE", "/subjects/b")
    assert http("GET", "/subjects") == (200, ["a", "c"])
    assert http("GET", "/subjects?deleted=true") == (200, ["a", "b", "c"])
    assert http("GET", "/subjects?deletedOnly=true") == (200, ["b"])
    assert http("GET", "/subjects?deleted=true&offset=1&limit=1") == (200, ["b"])
    assert http("GET", "/subjects?offset=x&limit=-1") == (200, ["a", "c"])
    assert http("GET", "/subjects/b/versions?deletedOnly=true") == (200, [1])
    assert http("GET", "/subjects/a/versions?deletedOnly=true") == (200, [])
    _, found = http("GET", "/schemas?latestOnly=true")
    assert [(each["subject"], each["version"]) for each in found] == [("a", 2), ("c", 1)]
    _, guid = http("GET", "/schemas/ids/1")
    assert http("GET", f"/schemas/guids/{guid['guid']}/ids") == (200, [{"context": ".", "id": 1}])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, 404),
        ("GET", "/subjects/s/versions/1/more", None, 404, 404),
        ("PATCH", "/subjects/s", None, 405, 405),
        ("GET", "/schemas/ids/x", None, 404, 404),
        ("POST", "/subjects/s/versions", "{", 400, 400),
        ("POST", "/subjects/s/versions", "[" * 100_000, 400, 400),
        ("POST", "/subjects/s/versions", None, 422, 42201),
        ("POST", "/subjects/s/versions", '{"schema": 1}', 422, 42201),
        ("POST", "/subjects/s/versions", '{"schema": "{}", "schemaType": []}', 422, 42201),
        ("POST", "/subjects/s/versions", '{"schema": "{}", "references": [{}]}', 422, 42201),
        ("POST", "/subjects/s/versions", '{"schema": "{}", "references": 1}', 422, 42201),
        ("POST", "/subjects/s/versions", '{"schema": "{}", "references": ["a"]}', 422, 42201),
        ("PUT", "/config", '"FULL"', 422, 422),
        ("PUT", "/mode", None, 422, 422),
        ("PUT", "/config", '{"compatibility": ["FULL"]}', 422, 42203),
        ("PUT", "/mode", '{"mode": {}}', 422, 42204),
        ("GET", "/subjects/%FF/versions", None, 404, 40401),
    ],
)
def test_invalid_requests_are_refused(
    http: Http, method: str, path: str, body: str | None, status: int, code: int
) -> None:
    found, answer = http(method, path, body)
    assert (found, answer["error_code"]) == (status, code)
    assert answer.keys() == {"error_code", "message"}
    assert http("GET", "/subjects") == (200, [])


def test_body_that_is_too_long_is_refused(http: Http) -> None:
    assert http("POST", "/subjects/s/versions", " " * (MAX_BODY_BYTES + 1))[0] == 413


def test_bug_is_logged_and_answered(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Registry, "schema_of_id", fail)
    assert http("GET", "/schemas/ids/1") == (
        500,
        {"error_code": 500, "message": "ZeroDivisionError()"},
    )
    assert "GET /schemas/ids/1 failed" in caplog.text

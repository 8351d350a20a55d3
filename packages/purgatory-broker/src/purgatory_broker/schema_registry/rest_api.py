"""The REST interface: an ASGI application."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

from purgatory_broker.schema_registry.registry import Registry
from purgatory_broker.schema_registry.registry_error import RegistryError
from purgatory_broker.schema_registry.schema import Schema, Version
from purgatory_broker.schema_registry.schema_parser import FORMATS
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: The longest body of a request.
MAX_BODY_BYTES = 4 * 2**20

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    registry: Registry
    #: What stands for the names in the route.
    names: dict[str, str]
    query: dict[str, str]
    body: Any

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    @property
    def subject(self) -> str | None:
        return self.names.get("subject")

    @property
    def schema_id(self) -> int:
        text = self.names["id"]
        if not text.isdecimal():
            raise RegistryError(404, f"a schema's id is a number, got {text!r}")
        return int(text)

    def version(self) -> Version:
        names = self.names
        return self.registry.version(
            names["subject"], names["version"], deleted=self.flag("deleted")
        )

    def versions(self) -> Iterator[Version]:
        """Iterate over all versions that the query asks for."""
        only, prefix = self.flag("deletedOnly"), self.query.get("subjectPrefix", "")
        for version in self.registry.state.all_versions():
            wanted = version.is_deleted if only else self.flag("deleted") or not version.is_deleted
            if wanted and version.subject.startswith(prefix):
                yield version

    def versions_of_id(self) -> list[Version]:
        self.registry.schema_of_id(self.schema_id)
        subject = self.query.get("subject")
        return [
            version
            for version in self.versions()
            if version.id == self.schema_id and subject in (None, version.subject)
        ]

    def schema_fields(self, schema: Schema) -> dict[str, Any]:
        fields = schema.fields() | {"guid": schema.guid}
        if self.query.get("format") == "serialized":
            fields["schema"] = self.registry.serialized(schema)
        return fields

    def version_fields(self, version: Version) -> dict[str, Any]:
        return version.fields() | self.schema_fields(version.schema)

    def page(self, found: list[Any]) -> list[Any]:
        """Return the part of a list that the query asks for; a limit below 0 is none."""
        offset, limit = self._number("offset", 0), self._number("limit", -1)
        return found[offset:] if limit < 0 else found[offset : offset + limit]

    def _number(self, name: str, least: int) -> int:
        text = self.query.get(name, "")
        return max(int(text), least) if text.isdecimal() else least


def _subjects(request: Request) -> Any:
    return request.page(list(dict.fromkeys(version.subject for version in request.versions())))


def _schemas(request: Request) -> Any:
    found = list(request.versions())
    if request.flag("latestOnly"):
        found = list({version.subject: version for version in found}.values())
    return request.page([request.version_fields(version) for version in found])


def _versions(request: Request) -> Any:
    only, deleted = request.flag("deletedOnly"), request.flag("deleted")
    found = request.registry.versions(request.names["subject"], deleted=only or deleted)
    return request.page([version.number for version in found if version.is_deleted or not only])


async def _register(request: Request) -> Any:
    version = await request.registry.register(
        request.names["subject"], request.body, normalize=request.flag("normalize")
    )
    return request.version_fields(version)


def _lookup(request: Request) -> Any:
    return request.version_fields(
        request.registry.lookup(
            request.names["subject"],
            request.body,
            normalize=request.flag("normalize"),
            deleted=request.flag("deleted"),
        )
    )


def _compatibility(request: Request) -> Any:
    problems = request.registry.problems(
        request.names["subject"],
        request.names.get("version"),
        request.body,
        normalize=request.flag("normalize"),
    )
    messages = {"messages": problems} if request.flag("verbose") else {}
    return {"is_compatible": not problems, **messages}


def _subjects_of_id(request: Request) -> Any:
    return list(dict.fromkeys(version.subject for version in request.versions_of_id()))


def _versions_of_id(request: Request) -> Any:
    return [
        {"subject": version.subject, "version": version.number}
        for version in request.versions_of_id()
    ]


def _ids_of_guid(request: Request) -> Any:
    return [{"context": ".", "id": request.registry.schema_of_guid(request.names["guid"]).id}]


async def _delete_subject(request: Request) -> Any:
    return await request.registry.delete_subject(
        request.names["subject"], permanent=request.flag("permanent")
    )


async def _delete_version(request: Request) -> Any:
    return await request.registry.delete_version(
        request.names["subject"], request.names["version"], permanent=request.flag("permanent")
    )


def _config(request: Request) -> Any:
    return request.registry.settings.config(
        request.subject, or_global=request.flag("defaultToGlobal")
    )


def _mode(request: Request) -> Any:
    mode = request.registry.settings.mode(
        request.subject, or_global=request.flag("defaultToGlobal")
    )
    return {"mode": mode}


async def _set_mode(request: Request) -> Any:
    return {
        "mode": await request.registry.settings.set_mode(
            request.subject, request.body, force=request.flag("force")
        )
    }


async def _delete_mode(request: Request) -> Any:
    return {"mode": await request.registry.settings.delete_mode(request.subject)}


#: The functions by method and path; a name in braces is any part of a path.
ROUTES: dict[str, Callable[[Request], Any]] = {
    "GET ": lambda _: {},
    "GET schemas": _schemas,
    "GET schemas/types": lambda _: list(FORMATS),
    "GET schemas/ids/{id}": lambda request: request.schema_fields(
        request.registry.schema_of_id(request.schema_id)
    ),
    "GET schemas/ids/{id}/schema": lambda request: (
        request.registry.schema_of_id(request.schema_id).text
    ),
    "GET schemas/ids/{id}/subjects": _subjects_of_id,
    "GET schemas/ids/{id}/versions": _versions_of_id,
    "GET schemas/guids/{guid}": lambda request: request.schema_fields(
        request.registry.schema_of_guid(request.names["guid"]).schema
    ),
    "GET schemas/guids/{guid}/ids": _ids_of_guid,
    "GET contexts": lambda _: ["."],
    "GET subjects": _subjects,
    "POST subjects/{subject}": _lookup,
    "DELETE subjects/{subject}": _delete_subject,
    "GET subjects/{subject}/versions": _versions,
    "POST subjects/{subject}/versions": _register,
    "GET subjects/{subject}/versions/{version}": lambda request: request.version_fields(
        request.version()
    ),
    "GET subjects/{subject}/versions/{version}/schema": lambda request: (
        request.version().schema.text
    ),
    "GET subjects/{subject}/versions/{version}/referencedby": lambda request: [
        version.id for version in request.registry.referring_to(request.version())
    ],
    "DELETE subjects/{subject}/versions/{version}": _delete_version,
    "POST compatibility/subjects/{subject}/versions": _compatibility,
    "POST compatibility/subjects/{subject}/versions/{version}": _compatibility,
    **{
        f"{method} {path}": handle
        for path in ("config", "config/{subject}")
        for method, handle in {
            "GET": _config,
            "PUT": lambda request: request.registry.settings.set_config(
                request.subject, request.body
            ),
            "DELETE": lambda request: request.registry.settings.delete_config(request.subject),
        }.items()
    },
    **{
        f"{method} {path}": handle
        for path in ("mode", "mode/{subject}")
        for method, handle in {"GET": _mode, "PUT": _set_mode, "DELETE": _delete_mode}.items()
    },
}
_PATTERNS = [
    (method, path.split("/"), handle)
    for (method, _, path), handle in ((key.partition(" "), value) for key, value in ROUTES.items())
]


@dataclass(frozen=True, slots=True)
class RestApi:
    """Answers HTTP requests."""

    registry: Registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, answer = 200, await self._answer(scope, receive)
        except RegistryError as error:
            status, answer = error.status, {"error_code": error.code, "message": str(error)}
        except Exception as error:
            _errors.log(error, "%s %s failed", scope["method"], scope["path"])
            status, answer = 500, {"error_code": 500, "message": repr(error)}
        content = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        # The path as it was sent: a subject may have a slash.
        raw: bytes = scope["raw_path"]
        parts = [unquote(part) for part in raw.decode("ascii", "replace").strip("/").split("/")]
        methods = {}
        for method, pattern, handle in _PATTERNS:
            names = _match(pattern, parts)
            if names is not None:
                methods[method] = handle, names
        if not methods:
            raise RegistryError(404, "HTTP 404 Not Found")
        if scope["method"] not in methods:
            raise RegistryError(405, "HTTP 405 Method Not Allowed")
        handle, names = methods[scope["method"]]
        query = dict(parse_qsl(scope["query_string"].decode("ascii", "replace")))
        answer = handle(Request(self.registry, names, query, await _body(receive)))
        return await answer if inspect.isawaitable(answer) else answer


def _match(pattern: list[str], parts: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    names = {}
    for expected, part in zip(pattern, parts, strict=True):
        if expected.startswith("{"):
            names[expected.strip("{}")] = part
        elif expected != part:
            return None
    return names


async def _body(receive: Receive) -> Any:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise RegistryError(413, f"a body has at most {MAX_BODY_BYTES:,} bytes")
    try:
        return json.loads(body) if body else None
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from error

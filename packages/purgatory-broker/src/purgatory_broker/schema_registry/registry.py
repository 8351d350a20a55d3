"""The registry: subjects and the versions of their schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from purgatory_broker.schema_registry.registry_error import (
    InvalidSchemaError,
    RegistryError,
    not_permitted,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from purgatory_broker.schema_registry.registry_state import (
    KeyAndValue,
    RegistryState,
    config_record,
    mode_record,
    version_record,
    version_tombstone,
)
from purgatory_broker.schema_registry.registry_topic import RegistryTopic, SchemaStore
from purgatory_broker.schema_registry.schema import Schema, Version
from purgatory_broker.schema_registry.schema_parser import (
    canonical_schema,
    incompatibilities,
    parse,
    serialized_text,
)
from purgatory_broker.schema_registry.subject_settings import IMPORT, READONLY, SubjectSettings

_LATEST = ("latest", "-1")
_MAX_NUMBER = 2**31 - 1


class Registry:
    """Changes are made one after the other. All methods raise RegistryError."""

    def __init__(self, store: SchemaStore) -> None:
        self._topic = RegistryTopic(store)
        self.settings = SubjectSettings(self._topic)

    @property
    def state(self) -> RegistryState:
        return self._topic.read()

    # -- looking

    def schema_of_id(self, schema_id: int) -> Schema:
        for version in self.state.all_versions():
            if version.id == schema_id:
                return version.schema
        raise RegistryError(40403, f"Schema {schema_id} not found")

    def schema_of_guid(self, guid: str) -> Version:
        for version in self.state.all_versions():
            if version.schema.guid == guid:
                return version
        raise schema_not_found()

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = self.state.versions(subject, deleted=deleted)
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, subject: str, number: str, *, deleted: bool = False) -> Version:
        """Return a version; `number` may be "latest"."""
        if number not in _LATEST and not (number.isdecimal() and 0 < int(number) <= _MAX_NUMBER):
            raise RegistryError(
                42202,
                f"The specified version '{number}' is not a valid version id. Allowed values are "
                'between [1, 2^31-1] and the string "latest"',
            )
        self.versions(subject, deleted=True)
        found = self.state.versions(subject, deleted=deleted)
        if number not in _LATEST:
            found = [version for version in found if version.number == int(number)]
        if not found:
            raise version_not_found(number)
        return found[-1]

    def referring_to(self, referenced: Version) -> list[Version]:
        wanted = referenced.subject, referenced.number
        return [
            version
            for version in self.state.all_versions()
            if not version.is_deleted
            and wanted in {(used.subject, used.version) for used in version.schema.references}
        ]

    def serialized(self, schema: Schema) -> str:
        return serialized_text(self.state, schema)

    def lookup(self, subject: str, body: Any, *, normalize: bool, deleted: bool) -> Version:
        """Return the version of a subject that has a schema."""
        schema = self._schema(subject, body, normalize=normalize)
        for version in reversed(self.versions(subject, deleted=deleted)):
            if version.schema == schema:
                return version
        raise schema_not_found()

    def problems(
        self, subject: str, number: str | None, body: Any, *, normalize: bool
    ) -> list[str]:
        """Return why a schema is not compatible with a version; without one, by the level alone."""
        schema = self._schema(subject, body, normalize=normalize)
        present = self.state.versions(subject)
        if number is not None and (present or number not in _LATEST):
            present = [self.version(subject, number)]
        return self._problems(subject, schema, present)

    def _problems(self, subject: str, schema: Schema, present: list[Version]) -> list[str]:
        level = self.settings.level(subject)
        compared = present if level.endswith("_TRANSITIVE") else present[-1:]
        return incompatibilities(self.state, level, schema, compared)

    def _schema(self, subject: str, body: Any, *, normalize: bool) -> Schema:
        normalize = normalize or bool(self.settings.config(subject).get("normalize"))
        return canonical_schema(body, normalize=normalize)

    # -- changing

    async def register(self, subject: str, body: Any, *, normalize: bool) -> Version:
        """Return the version of a subject with a schema, which is new unless the subject has it."""
        if not subject or subject in ("__GLOBAL", "__EMPTY"):
            raise RegistryError(42208, f"The specified subject '{subject}' is not a valid subject.")
        async with self._topic.changing() as state:
            mode = self.settings.mode(subject)
            if mode == READONLY:
                raise not_permitted(f"Subject {subject} is in read-only mode")
            schema = self._schema(subject, body, normalize=normalize)
            given_id, given_version = _given_number(body, "id"), _given_number(body, "version")
            if given_id is not None and mode != IMPORT:
                raise not_permitted(f"Subject {subject} is not in import mode")
            present = state.versions(subject)
            for version in present:
                if version.schema == schema and given_id in (None, version.id):
                    return version
            if mode == IMPORT:
                parse(state, schema)
                self._require_free(schema, given_id)
            elif problems := self._problems(subject, schema, present):
                raise RegistryError(
                    409,
                    "Schema being registered is incompatible with an earlier schema for subject "
                    f'"{subject}", details: [{"; ".join(problems)}]',
                )
            numbers = [version.number for version in state.versions(subject, deleted=True)]
            new = Version(
                subject,
                (given_version if mode == IMPORT else None) or max(numbers, default=0) + 1,
                given_id or state.find_id(schema) or state.last_id + 1,
                schema,
            )
            await self._topic.append(version_record(new))
            return new

    def _require_free(self, schema: Schema, given_id: int | None) -> None:
        for version in self.state.all_versions():
            if version.id == given_id and version.schema != schema:
                raise not_permitted(f"Overwrite new schema with id {given_id} is not permitted.")

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        async with self._topic.changing() as state:
            present, versions = state.versions(subject), self.versions(subject, deleted=True)
            if permanent and present:
                raise RegistryError(
                    40405,
                    f"Subject '{subject}' was not deleted first before being permanently deleted",
                )
            if not permanent and not present:
                raise RegistryError(
                    40404,
                    f"Subject '{subject}' was soft deleted. Set permanent=true to delete "
                    "permanently",
                )
            deleted = versions if permanent else present
            records = self._deletions(deleted, permanent=permanent)
            if subject in state.configs:
                records.append(config_record(subject, None))
            if subject in state.modes:
                records.append(mode_record(subject, None))
            await self._topic.append(*records)
            return [version.number for version in deleted]

    async def delete_version(self, subject: str, number: str, *, permanent: bool) -> int:
        async with self._topic.changing():
            version = self.version(subject, number, deleted=number not in _LATEST)
            if version.is_deleted and not permanent:
                raise RegistryError(
                    40406,
                    f"Subject '{subject}' Version {version.number} was soft deleted. Set "
                    "permanent=true to delete permanently",
                )
            if permanent and not version.is_deleted:
                raise RegistryError(
                    40407,
                    f"Subject '{subject}' Version {version.number} was not deleted first before "
                    "being permanently deleted",
                )
            await self._topic.append(*self._deletions([version], permanent=permanent))
            return version.number

    def _deletions(self, versions: list[Version], *, permanent: bool) -> list[KeyAndValue]:
        for version in versions:
            if self.settings.mode(version.subject) == READONLY:
                raise not_permitted(f"Subject {version.subject} is in read-only mode")
            if self.referring_to(version):
                raise RegistryError(
                    42206,
                    f"One or more references exist to the schema {version.subject} version "
                    f"{version.number}.",
                )
        if permanent:
            return [version_tombstone(version) for version in versions]
        return [version_record(replace(version, is_deleted=True)) for version in versions]


def _given_number(body: dict[str, Any], name: str) -> int | None:
    """Return an id or version that a request sets; 0 and -1 set none."""
    number = body.get(name)
    if number is None or number in (0, -1):
        return None
    if type(number) is not int or not 0 < number <= _MAX_NUMBER:
        raise InvalidSchemaError(f"{name} must be between 1 and 2^31-1, got {number!r}")
    return number

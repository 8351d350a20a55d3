"""What the registry knows: a fold over the records of its topic, in Confluent's format."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from purgatory_broker.schema_registry.registry_error import InvalidSchemaError
from purgatory_broker.schema_registry.schema import Schema, Version, schema_from

logger = logging.getLogger(__name__)

#: A key and a value; None as value deletes what has the key.
KeyAndValue = tuple[bytes, bytes | None]
#: The settings that hold for subjects without their own.
GLOBAL = None


def version_record(version: Version) -> KeyAndValue:
    return _version_key(version), _json(version.fields() | {"deleted": version.is_deleted})


def version_tombstone(version: Version) -> KeyAndValue:
    return _version_key(version), None


def _version_key(version: Version) -> bytes:
    return _json(
        {
            "keytype": "SCHEMA",
            "subject": version.subject,
            "version": version.number,
            "magic": 1,
        }
    )


def config_record(subject: str | None, config: dict[str, Any] | None) -> KeyAndValue:
    return _setting_key("CONFIG", subject), None if config is None else _json(config)


def mode_record(subject: str | None, mode: str | None) -> KeyAndValue:
    return _setting_key("MODE", subject), None if mode is None else _json({"mode": mode})


def _setting_key(kind: str, subject: str | None) -> bytes:
    return _json({"keytype": kind, "subject": subject, "magic": 0})


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(slots=True)
class RegistryState:
    #: By subject and number, ascending.
    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    configs: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)
    #: The largest one so far, also of a schema that was deleted.
    last_id: int = 0

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject by number; `deleted` includes those softly deleted."""
        found = self.subjects.get(subject, {}).values()
        return [version for version in found if deleted or not version.is_deleted]

    def all_versions(self) -> Iterator[Version]:
        for subject in sorted(self.subjects):
            yield from self.subjects[subject].values()

    def find_id(self, schema: Schema) -> int | None:
        return next((found.id for found in self.all_versions() if found.schema == schema), None)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record; one that is none of a registry is logged, and has no effect."""
        try:
            self._apply(json.loads(key or b""), None if value is None else json.loads(value))
        except (ValueError, KeyError, TypeError, InvalidSchemaError) as error:
            logger.warning("a record of the schema registry's topic is invalid: %r", error)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind = key["keytype"]
        if kind == "SCHEMA":
            self._apply_version(str(key["subject"]), int(key["version"]), value)
        elif kind == "CONFIG":
            _set_or_remove(self.configs, key["subject"], value)
        elif kind == "MODE":
            _set_or_remove(self.modes, key["subject"], value and str(value["mode"]))
        elif kind == "DELETE_SUBJECT" and value is not None:
            # This registry writes the versions instead.
            for version in self.versions(key["subject"]):
                if version.number <= value["version"]:
                    self._put(replace(version, is_deleted=True))

    def _apply_version(self, subject: str, number: int, value: dict[str, Any] | None) -> None:
        if value is not None:
            is_deleted = bool(value.get("deleted"))
            self._put(Version(subject, number, int(value["id"]), schema_from(value), is_deleted))
        elif subject in self.subjects:
            self.subjects[subject].pop(number, None)
            if not self.subjects[subject]:
                del self.subjects[subject]

    def _put(self, version: Version) -> None:
        numbers = self.subjects.setdefault(version.subject, {})
        is_last = not numbers or version.number >= max(numbers)
        numbers[version.number] = version
        if not is_last:
            self.subjects[version.subject] = dict(sorted(numbers.items()))
        self.last_id = max(self.last_id, version.id)


def _set_or_remove(settings: dict[str | None, Any], subject: str | None, value: Any) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value

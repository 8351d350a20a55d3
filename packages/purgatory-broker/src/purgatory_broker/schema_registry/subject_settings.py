"""The settings and modes of subjects, and those of all others."""

from __future__ import annotations

from typing import Any

from purgatory_broker.schema_registry.registry_error import (
    RegistryError,
    not_permitted,
    subject_not_found,
)
from purgatory_broker.schema_registry.registry_state import GLOBAL, config_record, mode_record
from purgatory_broker.schema_registry.registry_topic import RegistryTopic

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
READWRITE, READONLY, IMPORT = MODES = ("READWRITE", "READONLY", "IMPORT")
_DEFAULT_CONFIG = {"compatibilityLevel": "BACKWARD"}


class SubjectSettings:
    """A subject of None is all that have no settings of their own."""

    def __init__(self, topic: RegistryTopic) -> None:
        self._topic = topic

    def config(self, subject: str | None, *, or_global: bool = True) -> dict[str, Any]:
        configs = self._topic.read().configs
        if subject in configs:
            return configs[subject]
        if subject is not GLOBAL and not or_global:
            raise RegistryError(
                40408,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return configs.get(GLOBAL, _DEFAULT_CONFIG)

    def level(self, subject: str) -> str:
        return str(self.config(subject)["compatibilityLevel"])

    async def set_config(self, subject: str | None, body: Any) -> dict[str, Any]:
        given = _object(body)
        unknown = {name for name, value in given.items() if value is not None}
        if unknown := unknown - {"compatibility", "normalize"}:
            raise not_permitted(f"this registry has no setting {', '.join(sorted(unknown))}")
        async with self._topic.changing():
            level = given.get("compatibility") or self.config(subject)["compatibilityLevel"]
            if level not in LEVELS:
                raise RegistryError(
                    42203,
                    f"Invalid compatibility level {level!r}. Valid values are {', '.join(LEVELS)}",
                )
            normalize = given.get("normalize")
            normalized = {} if normalize is None else {"normalize": bool(normalize)}
            record = config_record(subject, {"compatibilityLevel": level, **normalized})
            await self._topic.append(record)
        return {"compatibility": level, **normalized}

    async def delete_config(self, subject: str | None) -> dict[str, Any]:
        async with self._topic.changing() as state:
            if subject is not GLOBAL and subject not in state.configs:
                raise subject_not_found(subject)
            deleted = self.config(subject)
            await self._topic.append(config_record(subject, None))
            return deleted

    def mode(self, subject: str | None, *, or_global: bool = True) -> str:
        modes = self._topic.read().modes
        if subject in modes:
            return modes[subject]
        if subject is not GLOBAL and not or_global:
            raise RegistryError(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return modes.get(GLOBAL, READWRITE)

    async def set_mode(self, subject: str | None, body: Any, *, force: bool) -> str:
        mode = _object(body).get("mode")
        if mode not in MODES:
            raise RegistryError(
                42204, f"Invalid mode {mode!r}. Valid values are {', '.join(MODES)}"
            )
        async with self._topic.changing() as state:
            subjects = state.subjects if subject is GLOBAL else [subject]
            if mode == IMPORT and not force and any(map(state.versions, subjects)):
                raise not_permitted("Cannot import since found existing subjects")
            await self._topic.append(mode_record(subject, mode))
        return str(mode)

    async def delete_mode(self, subject: str | None) -> str:
        async with self._topic.changing() as state:
            if subject is not GLOBAL and subject not in state.modes:
                raise subject_not_found(subject)
            deleted = self.mode(subject)
            await self._topic.append(mode_record(subject, None))
            return deleted


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise RegistryError(422, f"expected an object, got {body!r}")
    return body

"""The errors of the registry, with the codes of Confluent's."""

from __future__ import annotations


class RegistryError(Exception):
    """A request was refused. The HTTP status is the first three digits of the code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


class InvalidSchemaError(RegistryError):
    def __init__(self, message: str) -> None:
        super().__init__(42201, message)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found() -> RegistryError:
    return RegistryError(40403, "Schema not found")


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)

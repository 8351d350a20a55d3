"""The quotas of clients: limits by user, client id or IP address."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from purgatory_broker.metadata.metadata_file import QuotaEntity
from purgatory_broker.metadata.metadata_store import MetadataStore

USER, CLIENT_ID, IP = "user", "client-id", "ip"

ClientQuotaValues: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]

#: The largest values of the quotas: of users and client ids, and of IP addresses. Kafka stores the
#: first two of a kind as whole numbers, the others as floating-point ones.
_LONG, _INT = 2**63 - 1, 2**31 - 1
_WHOLE_MAXIMUMS = {
    "producer_byte_rate": _LONG,
    "consumer_byte_rate": _LONG,
    "connection_creation_rate": _INT,
}
_USER_KEYS = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
_IP_KEYS = frozenset({"connection_creation_rate"})
#: The name of every quota.
QUOTA_KEYS = sorted(_USER_KEYS | _IP_KEYS)


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """A change of an entity's quotas: pairs of a key and a value, or None to remove it."""

    entity: QuotaEntity
    changes: Sequence[tuple[str, float | None]]


class ClientQuotas:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> dict[QuotaEntity, str | None]:
        values = {entity: dict(values) for entity, values in self._store.client_quotas.items()}
        results: dict[QuotaEntity, str | None] = {}
        for alteration in alterations:
            entity = alteration.entity
            if entity in results:
                # As in Kafka: the first change of the entity applies, and this one does not.
                results[entity] = "Ignoring duplicate entity"
                continue
            results[entity] = _alteration_error(alteration)
            if results[entity] is None:
                present = values.setdefault(entity, {})
                for key, value in alteration.changes:
                    if value is None:
                        present.pop(key, None)
                    else:
                        present[key] = value
                if not present:
                    del values[entity]
        if not validate_only and values != self._store.client_quotas:
            self._store.replace("client_quotas", values)
        return results


def _alteration_error(alteration: QuotaAlteration) -> str | None:
    names = dict(alteration.entity)
    if not names:
        return "Invalid empty client quota entity"
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in names:
        if len(names) > 1:
            return (
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        if not _is_address(names[IP]):
            return f"{names[IP]} is not a valid IP address"
    if len({key for key, _ in alteration.changes}) < len(alteration.changes):
        return "Duplicate quota key"
    known = _IP_KEYS if IP in names else _USER_KEYS
    for key, value in alteration.changes:
        error = None if value is None else _value_error(key, value, known)
        if error is not None:
            return error
    return None


def _is_address(name: str | None) -> bool:
    # Kafka also takes names that its resolver knows; a look-up would keep the event loop waiting.
    if name is None or name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _value_error(key: str, value: float, known: frozenset[str]) -> str | None:
    if key not in known:
        return f"Invalid configuration key {key}"
    if not value > 0:  # Also not a number.
        return f"Quota {key} must be greater than 0"
    maximum = _WHOLE_MAXIMUMS.get(key)
    if maximum is None:
        return None
    if value > maximum:
        return f"Proposed value for {key} is too large."
    return f"{key} cannot be a fractional value." if abs(value % 1) > 1e-6 else None


class QuotaFilter(NamedTuple):
    #: Names that an entity must have, by type; None is the default of the type.
    exact: Mapping[str, str | None]
    #: Types of which an entity must have any name.
    types: frozenset[str]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        names = dict(entity)
        if self.is_strict and len(names) != len(self.exact) + len(self.types):
            return False
        return self.types <= names.keys() and all(
            kind in names and names[kind] == name for kind, name in self.exact.items()
        )


class ClientLimit(NamedTuple):
    """A client's limit, and the clients that share it."""

    value: float
    #: The user and the client id; an empty one stands for all.
    shared_by: tuple[str, str]


def client_limit(
    quotas: ClientQuotaValues, key: str, user: str, client_id: str
) -> ClientLimit | None:
    """Return the limit of the most specific entity with a quota, as in Kafka."""
    both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
    candidates: tuple[tuple[dict[str, str | None], tuple[str, str]], ...] = (
        ({USER: user, CLIENT_ID: client_id}, both),
        ({USER: user, CLIENT_ID: None}, both),
        ({USER: user}, of_user),
        ({USER: None, CLIENT_ID: client_id}, both),
        ({USER: None, CLIENT_ID: None}, both),
        ({USER: None}, of_user),
        ({CLIENT_ID: client_id}, of_client),
        ({CLIENT_ID: None}, of_client),
    )
    for names, shared_by in candidates:
        value = quotas.get(quota_entity(names), {}).get(key)
        if value is not None:
            return ClientLimit(value, shared_by)
    return None

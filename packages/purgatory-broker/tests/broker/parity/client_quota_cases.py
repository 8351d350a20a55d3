"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import message

_Names = Mapping[str, str | None]

_EXACT, _DEFAULT, _SPECIFIED = range(3)


def _alter(
    harness: CaseHarness,
    *entries: tuple[_Names, list[tuple[str, float | None]]],
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    fields = {
        "entries": [
            {
                "entity": [
                    {"entity_type": kind, "entity_name": name} for kind, name in names.items()
                ],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in changes
                ],
            }
            for names, changes in entries
        ],
        "validate_only": validate_only,
    }
    answer = harness.node_0.send(message(AlterClientQuotasRequest, fields), version)
    return _shown(answer.entries, lambda each: each.error_code)


def _describe(
    harness: CaseHarness,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    fields = {
        "components": [
            {"entity_type": kind, "match_type": how, "match": match}
            for kind, how, match in components
        ],
        "strict": strict,
    }
    answer = harness.node_0.send(message(DescribeClientQuotasRequest, fields), version)
    if answer.error_code:
        return {"error_code": answer.error_code, "entries": answer.entries}
    return _shown(
        answer.entries, lambda each: {value.key: value.value for value in sorted_values(each)}
    )


def sorted_values(entry: Any) -> list[Any]:
    """Return the values of an entity, by key."""
    return sorted(entry.values, key=lambda each: each.key)


def _shown(entries: Any, value: Any) -> dict[str, Any]:
    """Return the entities, which have no order, with a value of each."""
    shown = {}
    for each in entries:
        names = sorted((part.entity_type, part.entity_name) for part in each.entity)
        shown[" ".join(f"{kind}={name}" for kind, name in names)] = value(each)
    return dict(sorted(shown.items()))


@case
def alter_client_quotas(harness: CaseHarness) -> Any:
    client, user = harness.name("client"), harness.name("user")
    seen: dict[str, Any] = {
        f"v{version}": _alter(
            harness, ({"client-id": client}, [("producer_byte_rate", 1_000.0)]), version=version
        )
        for version in range(2)
    }
    seen["validated"] = _alter(
        harness, ({"user": user}, [("producer_byte_rate", 7.0)]), validate_only=True
    )
    seen["both"] = _alter(
        harness,
        ({"user": user, "client-id": client}, [("request_percentage", 12.5)]),
        ({"user": user, "client-id": None}, [("consumer_byte_rate", 5.0)]),
        ({"ip": "10.1.2.3"}, [("connection_creation_rate", 9.0)]),
    )

    def described() -> Any:
        return _describe(harness, ("client-id", _EXACT, client))

    harness.until(lambda: len(described()) == 2)
    seen["of the client"] = described()
    seen["of the client alone"] = _describe(harness, ("client-id", _EXACT, client), strict=True)
    seen["version 0"] = _describe(harness, ("client-id", _EXACT, client), strict=True, version=0)
    seen["of the user"] = _describe(harness, ("user", _EXACT, user))
    seen["of the user with any client"] = _describe(
        harness, ("user", _EXACT, user), ("client-id", _SPECIFIED, None)
    )
    seen["of the user with the default"] = _describe(
        harness, ("user", _EXACT, user), ("client-id", _DEFAULT, None), strict=True
    )
    seen["of the address"] = _describe(harness, ("ip", _EXACT, "10.1.2.3"))
    seen["changed"] = _alter(
        harness,
        (
            {"client-id": client},
            [
                ("producer_byte_rate", None),
                ("consumer_byte_rate", 3.0),
                ("request_percentage", None),
            ],
        ),
    )
    harness.until(
        lambda: (
            "consumer_byte_rate"
            in str(_describe(harness, ("client-id", _EXACT, client), strict=True))
        )
    )
    seen["when it is changed"] = _describe(harness, ("client-id", _EXACT, client), strict=True)
    seen["removed"] = _alter(
        harness,
        ({"client-id": client}, [("consumer_byte_rate", None)]),
        ({"user": user, "client-id": client}, [("request_percentage", None)]),
        ({"user": user, "client-id": None}, [("consumer_byte_rate", None)]),
        ({"ip": "10.1.2.3"}, [("connection_creation_rate", None)]),
    )
    harness.until(lambda: not described() and not _describe(harness, ("user", _EXACT, user)))
    return seen


@case
def alter_client_quotas_that_are_invalid(harness: CaseHarness) -> Any:
    client = harness.name("client")
    names: _Names = {"client-id": client}
    wanted: dict[str, tuple[_Names, list[tuple[str, float | None]]]] = {
        "no entity": ({}, [("producer_byte_rate", 1.0)]),
        "unknown type": ({"planet": "x"}, [("producer_byte_rate", 1.0)]),
        "empty name": ({"user": ""}, [("producer_byte_rate", 1.0)]),
        "address and user": ({"ip": "10.0.0.1", "user": "u"}, [("connection_creation_rate", 1.0)]),
        "no address": ({"ip": "10.0.0.0.1.2"}, [("connection_creation_rate", 1.0)]),
        "unknown key": (names, [("no_such_rate", 1.0)]),
        "key of addresses": (names, [("connection_creation_rate", 1.0)]),
        "key of clients": ({"ip": "10.0.0.1"}, [("producer_byte_rate", 1.0)]),
        "zero": (names, [("producer_byte_rate", 0.0)]),
        "negative": (names, [("request_percentage", -1.0)]),
        "fraction": (names, [("producer_byte_rate", 1.5)]),
        "too large": (names, [("producer_byte_rate", 1e30)]),
        "too large for an int": ({"ip": "10.0.0.1"}, [("connection_creation_rate", 3e9)]),
        "a key twice": (names, [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]),
        "nothing to remove": (names, [("producer_byte_rate", None)]),
        "no changes": (names, []),
    }
    seen = {name: _alter(harness, each) for name, each in wanted.items()}
    seen["an entity twice"] = _alter(
        harness,
        (names, [("producer_byte_rate", 1.0)]),
        (names, [("producer_byte_rate", 2.0)]),
        validate_only=True,
    )
    return seen | {
        "nothing": _alter(harness),
        "stored": _describe(harness, ("client-id", _EXACT, client)),
    }


@case
def describe_client_quotas_with_odd_filters(harness: CaseHarness) -> Any:
    name = harness.name("none")
    wanted: dict[str, list[tuple[str, int, str | None]]] = {
        "nothing found": [("user", _EXACT, name)],
        "unknown type": [("planet", _EXACT, name)],
        "empty type": [("", _EXACT, name)],
        "a type twice": [("user", _EXACT, name), ("user", _SPECIFIED, None)],
        "no name": [("user", _EXACT, None)],
        "a name for the default": [("user", _DEFAULT, name)],
        "a name for any": [("user", _SPECIFIED, name)],
        "unknown match": [("user", 9, name)],
        "address and user": [("ip", _SPECIFIED, None), ("user", _EXACT, name)],
    }
    return {title: _describe(harness, *each) for title, each in wanted.items()}

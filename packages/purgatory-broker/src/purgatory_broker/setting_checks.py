"""The checks of a cluster's settings that ask for more than a type and a range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from purgatory_broker.listeners import Listener
from request_purgatory.errors import InvalidArgumentError

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
#: What settings may be that have names for values.
_CHOICES = {
    "group_consumer_assignors": ("uniform", "range"),
    "group_consumer_migration_policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
    "sasl_enabled_mechanisms": SASL_MECHANISMS,
    "ssl_client_auth": ("required", "requested", "none"),
}


def check_one(name: str, value: str) -> None:
    choices = _CHOICES[name]
    if value not in choices:
        raise InvalidArgumentError(name, f"one of {', '.join(choices)}", value)


def check_some(name: str, value: str, chosen: Sequence[str]) -> None:
    choices = _CHOICES[name]
    if not chosen or not set(chosen) <= set(choices):
        raise InvalidArgumentError(name, f"some of {', '.join(choices)}", value)


def check_port(port: int, nodes: int) -> None:
    if port + nodes > 65_536:
        raise InvalidArgumentError("port", f"at most {65_536 - nodes} for {nodes} nodes", port)


def check_replication_factor(factor: int | None, nodes: int) -> None:
    if factor is not None and not 1 <= factor <= nodes:
        raise InvalidArgumentError(
            "default_replication_factor", f"between 1 and {nodes}, the number of nodes", factor
        )


def check_cleanup_policy(value: str) -> None:
    policies = set(value.replace(" ", "").split(","))
    if not policies <= {"compact", "delete"}:
        raise InvalidArgumentError("log_cleanup_policy", "delete, compact or both", value)


def check_users(users: Mapping[str, str]) -> None:
    if any(not user or not password for user, password in users.items()):
        # Without the value, which has passwords.
        raise InvalidArgumentError("sasl_users", "names and passwords", "an empty one")


def check_super_users(value: str, principals: Iterable[tuple[str, str, str]]) -> None:
    if not all(kind and name for kind, _, name in principals):
        raise InvalidArgumentError(
            "super_users", "of the form TYPE:NAME, with semicolons between", value
        )


def check_certificates(
    listeners: Iterable[Listener], client_auth: str, keystore: Path | None, truststore: Path | None
) -> None:
    if not any(listener.protocol.has_tls for listener in listeners):
        return
    if keystore is None:
        raise InvalidArgumentError("ssl_keystore_location", "given with SSL listeners", None)
    if client_auth != "none" and truststore is None:
        raise InvalidArgumentError(
            "ssl_truststore_location", f"given with ssl_client_auth={client_auth}", None
        )


def check_logins(
    listeners: Iterable[Listener], mechanisms: Sequence[str], users: Mapping[str, str]
) -> None:
    if (
        all(listener.protocol.has_sasl for listener in listeners)
        and not users
        and "OAUTHBEARER" not in mechanisms
    ):
        raise InvalidArgumentError("sasl_users", "given if all listeners have SASL", {})

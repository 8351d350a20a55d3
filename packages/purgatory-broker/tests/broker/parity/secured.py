"""Apache Kafka with an authorizer, and the cases that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.kafka_server import KafkaCluster, broker_libraries, real_kafka
from tests.broker.parity.case import Case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient

#: The operations that each kind of resource is granted by an ACL of its own, by their codes.
OPERATIONS = {
    "topic": {2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER"}
    | {8: "DESCRIBE", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS"},
    "group": {2: "ALL", 3: "READ", 6: "DELETE", 8: "DESCRIBE"}
    | {10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS"},
    "cluster": {2: "ALL", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE"}
    | {9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE"},
    "transactional-id": {2: "ALL", 4: "WRITE", 8: "DESCRIBE"},
}
#: Those who are granted one operation each, and others. All log in by PLAIN; clients of the
#: PLAINTEXT listener are ANONYMOUS, who is a super user.
USERS = [
    f"{kind}-{operation}"
    for kind, operations in OPERATIONS.items()
    for operation in operations.values()
] + ["alice", "bob"]
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
SUPER_USERS = "User:ANONYMOUS;User:root"
PASSWORDS = {user: f"{user}-secret" for user in [*USERS, "root"]}

_MODULES = "org.apache.kafka.common.security"
_LISTENER = "listener.name.sasl_plaintext"
_PLAIN = " ".join(
    [f"{_MODULES}.plain.PlainLoginModule required"]
    + [f'user_{user}="{password}"' for user, password in PASSWORDS.items()]
)
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": SUPER_USERS,
    "sasl.enabled.mechanisms": MECHANISMS,
    f"{_LISTENER}.plain.sasl.jaas.config": f"{_PLAIN};",
    f"{_LISTENER}.oauthbearer.sasl.jaas.config": (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    ),
}


@contextmanager
def secured_kafka(folder: Path) -> Iterator[KafkaCluster]:
    """Run Apache Kafka with an authorizer on one node, with its data in `folder`."""
    with real_kafka(broker_libraries(), folder, settings=_SETTINGS) as cluster:
        yield cluster


#: The cases, by name. None stops the node.
SECURED_CASES: dict[str, Case] = {}


def secured_case(look: Callable[[CaseHarness], Any]) -> Callable[[CaseHarness], Any]:
    """Add a function to the cases, by its name."""
    assert look.__name__ not in SECURED_CASES, f"two cases are named {look.__name__}"
    SECURED_CASES[look.__name__] = Case(look.__name__, look)
    return look


def log_in(harness: CaseHarness, user: str) -> RawClient:
    """Connect to node 0 as a user."""
    client = harness.connect_sasl()
    client.call("SaslHandshake", 1, mechanism="PLAIN")
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    assert client.call("SaslAuthenticate", 2, auth_bytes=token).error_code == 0
    return client

"""SCRAM: its mechanisms, and what a server keeps of a user's password (RFC 5802, RFC 7677)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from enum import IntEnum

#: As in Kafka: the iterations of credentials made from a password, and the limits on those of
#: credentials that clients store.
MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
_SALT_BYTES = 16


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    def hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash_name)

    def hash(self, message: bytes) -> bytes:
        return hashlib.new(self.hash_name, message).digest()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of a password for one mechanism; the password does not follow from it."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def salted_credential(
    mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes
) -> ScramCredential:
    client_key = mechanism.hmac(salted_password, b"Client Key")
    server_key = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, iterations, mechanism.hash(client_key), server_key)


def password_credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    # Takes some milliseconds. As in Kafka, the password is not normalized (RFC 4013).
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, MIN_ITERATIONS)
    return salted_credential(mechanism, salt, MIN_ITERATIONS, salted)

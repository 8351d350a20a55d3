"""The client's side of SCRAM, written from RFC 5802."""

from __future__ import annotations

import base64
import hashlib
import hmac

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what a client stores for a user."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


class ScramClient:
    """One login."""

    def __init__(self, mechanism: str, user: str, password: str, *, nonce: str = NONCE) -> None:
        self._hash = HASHES[mechanism]
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={user},r={nonce}"
        self._server_key = b""
        self._signed = b""

    def first(self) -> bytes:
        """Return the first message."""
        return b"n,," + self._bare.encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the second message, which proves that the client knows the password."""
        fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
        assert fields["r"].startswith(self._nonce)
        assert len(fields["r"]) > len(self._nonce)
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        without_proof = f"c=biws,r={fields['r']}"
        self._signed = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), self._signed)
        self._server_key = self._hmac(salted, b"Server Key")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def is_servers(self, server_final: bytes) -> bool:
        """Return whether the server knows the password, too."""
        return server_final == b"v=" + base64.b64encode(self._hmac(self._server_key, self._signed))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

"""Certificates for tests of TLS connections."""

from __future__ import annotations

from pathlib import Path

import pytest


class Certificates:
    """Files in PEM form, made for this run.

    Attributes:
        authority: The authority's certificate.
        broker: The broker's private key and its certificate, for 127.0.0.1 and localhost.
        client: A client's private key and its certificate.
        stranger: The same, of another authority.
    """

    def __init__(self, folder: Path) -> None:
        trustme = pytest.importorskip("trustme")
        self.authority, self.broker = folder / "authority.pem", folder / "broker.pem"
        self.client, self.stranger = folder / "client.pem", folder / "stranger.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        for path, issuer, names in (
            (self.broker, authority, ("127.0.0.1", "localhost")),
            (self.client, authority, ("client",)),
            (self.stranger, trustme.CA(), ("client",)),
        ):
            issued = issuer.issue_cert(*names)
            issued.private_key_and_cert_chain_pem.write_to_path(str(path))

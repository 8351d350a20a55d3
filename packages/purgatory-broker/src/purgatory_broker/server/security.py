"""What the listeners of a cluster need for TLS and SASL, and what a listener without it means."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from purgatory_broker.listeners import Listener, join_address
from purgatory_broker.metadata.scram_credentials import ScramCredentials
from purgatory_broker.server.oauth_bearer import OAUTHBEARER
from purgatory_broker.server.sasl import Credentials
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)

_CERTIFICATES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Security:
    #: What clients of SASL listeners log in with.
    credentials: Credentials
    #: The certificate of SSL listeners; None if there is none.
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, settings: ClusterSettings, scram: ScramCredentials) -> Security:
        has_tls = any(
            listener.protocol.has_tls
            for listeners in settings.node_listeners()
            for listener in listeners
        )
        return cls(Credentials(settings.sasl_users, scram), _tls(settings) if has_tls else None)


def _tls(settings: ClusterSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    keys = settings.ssl_keystore_location
    assert keys is not None, "the settings require one"
    try:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(keys, password=settings.ssl_key_password or "")
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            "ssl_keystore_location",
            f"a PEM file with a private key and its certificates ({error})",
            str(keys),
        ) from error
    authorities = settings.ssl_truststore_location
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                "ssl_truststore_location",
                f"a PEM file with certificates ({error})",
                str(authorities),
            ) from error
    context.verify_mode = _CERTIFICATES[settings.ssl_client_auth]
    return context


def warn_if_reachable(settings: ClusterSettings) -> None:
    listeners = [listener for listener in settings.node_listeners()[0] if not listener.is_loopback]
    if listeners:
        logger.warning(
            "other machines can connect: %s; %s",
            "; ".join(_describe(listener, settings) for listener in listeners),
            "every client that connects may do what ACLs allow it"
            if settings.authorizer
            else "there are no ACLs, so every client that connects may read, change and delete "
            "everything",
        )


def _describe(listener: Listener, settings: ClusterSettings) -> str:
    encrypted = "encrypted" if listener.protocol.has_tls else "not encrypted"
    login = "clients are not authenticated"
    if listener.protocol.has_sasl:
        login = "clients log in with a password"
        if OAUTHBEARER in settings.sasl_mechanisms:
            login = "clients log in as anybody, with a token that nobody has signed"
    elif listener.protocol.has_tls and settings.ssl_client_auth == "required":
        login = "clients need a certificate"
    address = join_address(listener.host, listener.port)
    return f"{listener.name} on {address} is {encrypted}, and {login}"


#: The attributes' names in RFC 2253, by those of OpenSSL. Others keep OpenSSL's name; in Java they
#: are numbers with encoded values.
_SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ESCAPES = str.maketrans({character: f"\\{character}" for character in ',=+<>#;"\\'})


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return a subject in the form of Java's `X500Principal.getName`, such as "CN=alice,O=shop"."""
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in parts)
        for parts in reversed(subject)
    )


def _escaped(value: str) -> str:
    """Return a value with escapes before special characters, and before spaces around it."""
    stripped = value.strip(" ")
    if not stripped:
        return "\\ " * len(value)
    start = value.index(stripped)
    end = len(value) - start - len(stripped)
    return "\\ " * start + stripped.translate(_ESCAPES) + "\\ " * end

"""The name of a certificate's subject, as Kafka names the user of such a client."""

from __future__ import annotations

from collections.abc import Sequence

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

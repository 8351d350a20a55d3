"""What the registry needs to know of a format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

#: The texts of the schemas that a schema refers to, by name; each comes after those it refers to.
References = Mapping[str, str]


class SchemaFormat(Protocol):
    """The schemas of one format. The functions raise InvalidSchemaError."""

    def canonical(self, text: str, *, normalize: bool) -> str:
        """Return the text that is stored: equal ones are one schema."""

    def parse(self, text: str, references: References) -> Any:
        """Return a parsed schema, for `incompatibilities`."""

    def incompatibilities(self, reader: Any, writer: Any, /) -> list[str]:
        """Return why some of what is written with `writer` can't be read with `reader`."""

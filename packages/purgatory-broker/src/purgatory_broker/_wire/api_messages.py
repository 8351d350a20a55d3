"""The messages of an API, as the modules of `protocol` define them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, field, make_dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from uuid import UUID

from purgatory_broker._wire.reader import MAX_ELEMENTS, FlexibleReader, Reader
from purgatory_broker._wire.writer import FlexibleWriter, Writer

#: The request's and the response's class.
Q = TypeVar("Q")
S = TypeVar("S")


#: The default of a field that is an array: a new list.
NEW_LIST: Any = object()


class _DataclassFields:
    """What `dataclasses` looks for in a class, made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[type[MessageStruct], dict[str, Field[Any]]] = {}

    def __get__(self, _struct: object, kind: type[MessageStruct]) -> dict[str, Field[Any]]:
        fields = self._made.get(kind)
        if fields is None:
            defaults = dict(
                zip(kind.__slots__, getattr(kind.__init__, "__defaults__", ()), strict=True)
            )
            made: Any = make_dataclass(
                kind.__name__,
                [
                    (name, kind.__annotations__[name], _field(default, name, kind.hidden_fields))
                    for name, default in defaults.items()
                ],
            )
            fields = self._made[kind] = made.__dataclass_fields__
        return fields


def _field(default: object, name: str, hidden: Sequence[str]) -> Any:
    if default is NEW_LIST:
        return field(default_factory=list, repr=name not in hidden)
    return field(default=default, repr=name not in hidden)


class MessageStruct:
    """What all structs have in common.

    They are dataclasses for what takes one, such as `dataclasses.replace`. `dataclass` has not made
    them, since that takes longer than all else that an import of the broker does.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _DataclassFields()  # type: ignore[assignment]
    #: The fields that are not shown.
    hidden_fields: ClassVar[tuple[str, ...]] = ()
    #: As of all objects that compare and can change.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in self.__slots__
            if name not in self.hidden_fields
        )
        return f"{type(self).__qualname__}({shown})"


class NamedTopic(NamedTuple):
    """A topic that a request names by its name or by its id, and numbers of partitions."""

    name: str | None
    topic_id: UUID | None
    partitions: Iterable[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApiMessages(Generic[Q, S]):
    """Readers and writers of an API's messages, in every version that Kafka has.

    Attributes:
        versions: Kafka's first and last version.
        flexible_since: The first version that is flexible; None if none is.
        error_response: Returns the response with an error code for every part of a request.
        topics: Returns the topics that a request names.
        names_partitions: Whether `topics` have partitions.
        groups: Returns the ids of the groups that a request names.
        transactional_ids: Returns the transactional ids that a request names.
        secrets: The fields, at any depth of both messages, that are not shown.
        fields: The fields of each struct that only some versions have: the first and the last one.
    """

    key: int
    name: str
    versions: tuple[int, int]
    flexible_since: int | None
    request: type[Q]
    response: type[S]
    read_request: Callable[[Reader, int], Q]
    read_response: Callable[[Reader, int], S]
    write_response: Callable[[Writer, S, int], None]
    error_response: Callable[[Q, int], S]
    fields: dict[type[Any], dict[str, tuple[int, int]]]
    topics: Callable[[Q], Iterable[NamedTopic]] | None = None
    names_partitions: bool = False
    groups: Callable[[Q], Iterable[str]] | None = None
    transactional_ids: Callable[[Q], Iterable[str]] | None = None
    secrets: frozenset[str] = frozenset()

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def reader(
        self, frame: bytes, position: int, version: int, max_elements: int = MAX_ELEMENTS
    ) -> Reader:
        kind = FlexibleReader if self.is_flexible(version) else Reader
        return kind(frame, position, max_elements)

    def writer(self, version: int) -> Writer:
        return (FlexibleWriter if self.is_flexible(version) else Writer)()

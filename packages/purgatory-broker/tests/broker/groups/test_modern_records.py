"""The records of consumer groups, in Kafka's binary format."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.groups.group_records import (
    RecordFormatError,
    decode_key,
    decode_modern,
    encode_record,
)
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.record_values import (
    ClassicMember,
    ConsumerMemberValue,
    CurrentAssignment,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
)
from purgatory_broker.groups.modern.records import ModernKey, RecordKind

_TEXT = st.text(max_size=8)
_INT = st.integers(-(2**31), 2**31 - 1)
_LONG = st.integers(-(2**63), 2**63 - 1)
_PARTITIONS = st.frozensets(
    st.builds(
        TopicIdPartition, st.integers(1, 3).map(lambda number: UUID(int=number)), st.integers(0, 9)
    ),
    max_size=6,
)
_VALUES: dict[RecordKind, st.SearchStrategy[Any]] = {
    RecordKind.CONSUMER_GROUP: st.builds(GroupEpoch, _INT, _LONG),
    RecordKind.CONSUMER_MEMBER: st.builds(
        ConsumerMemberValue,
        client_id=_TEXT,
        client_host=_TEXT,
        instance_id=st.none() | _TEXT,
        rack_id=st.none() | _TEXT,
        topics=st.frozensets(_TEXT, max_size=3),
        regex=st.none() | st.text(min_size=1, max_size=8),
        rebalance_timeout_ms=_INT,
        assignor=st.none() | _TEXT,
        classic=st.none()
        | st.builds(
            ClassicMember,
            _INT,
            st.lists(st.tuples(_TEXT, st.binary(max_size=8)), max_size=3).map(tuple),
        ),
    ),
    RecordKind.CONSUMER_TARGET_EPOCH: _INT,
    RecordKind.CONSUMER_TARGET: _PARTITIONS,
    RecordKind.CONSUMER_CURRENT: st.builds(
        CurrentAssignment, _INT, _INT, st.sampled_from(MemberState), _PARTITIONS, _PARTITIONS
    ),
    RecordKind.CONSUMER_REGEX: st.builds(
        ResolvedRegex, st.frozensets(_TEXT, max_size=3), _LONG, _LONG
    ),
}
_WITHOUT_ITEM = (RecordKind.CONSUMER_GROUP, RecordKind.CONSUMER_TARGET_EPOCH)


@st.composite
def records(draw: st.DrawFn) -> tuple[ModernKey, Any]:
    kind = draw(st.sampled_from(sorted(_VALUES)))
    item = "" if kind in _WITHOUT_ITEM else draw(_TEXT)
    return ModernKey(kind, draw(_TEXT), item), draw(_VALUES[kind])


@given(records())
def test_encoded_records_decode_to_the_same_records(record: tuple[ModernKey, Any]) -> None:
    key, value = record
    raw_key, raw_value = encode_record(key, value)
    assert decode_key(raw_key) == key
    assert raw_value is not None
    assert decode_modern(key, raw_value) == value


@given(records(), st.data())
def test_truncated_records_are_rejected(record: tuple[ModernKey, Any], data: st.DataObject) -> None:
    key, value = record
    raw_key, raw_value = encode_record(key, value)
    assert raw_value is not None
    with pytest.raises(RecordFormatError):
        decode_key(raw_key[: data.draw(st.integers(2, len(raw_key) - 1))])
    with pytest.raises(RecordFormatError):
        decode_modern(key, raw_value[: data.draw(st.integers(0, len(raw_value) - 1))])


@pytest.mark.parametrize(
    ("key", "value", "raw_key", "raw_value"),
    [
        (
            ModernKey(RecordKind.CONSUMER_GROUP, "g"),
            GroupEpoch(7, 0x0102),
            "0003 0001 67",
            "0000 00000007 01 00 08 0000000000000102",
        ),
        (
            ModernKey(RecordKind.CONSUMER_GROUP, "g"),
            GroupEpoch(7),
            "0003 0001 67",
            "0000 00000007 00",
        ),
        (ModernKey(RecordKind.CONSUMER_TARGET_EPOCH, "g"), 7, "0006 0001 67", "0000 00000007 00"),
        (
            ModernKey(RecordKind.CONSUMER_TARGET, "g", "m"),
            frozenset([TopicIdPartition(UUID(int=1), 2)]),
            "0007 0001 67 0001 6d",
            f"0000 02 {1:032x} 02 00000002 00 00",
        ),
        (
            ModernKey(RecordKind.CONSUMER_CURRENT, "g", "m"),
            CurrentAssignment(3, 2, MemberState.UNREVOKED_PARTITIONS),
            "0008 0001 67 0001 6d",
            "0000 00000003 00000002 01 01 01 00",
        ),
        (
            ModernKey(RecordKind.CONSUMER_REGEX, "g", "t.*"),
            ResolvedRegex(frozenset("t"), 1, 2),
            "0010 0001 67 0003 742e2a",
            "0000 02 02 74 0000000000000001 0000000000000002 00",
        ),
        (
            ModernKey(RecordKind.CONSUMER_MEMBER, "g", "m"),
            ConsumerMemberValue(
                "c", "/h", topics=frozenset("t"), classic=ClassicMember(9, (("range", b"x"),))
            ),
            "0005 0001 67 0001 6d",
            "0000 00 00 02 63 03 2f68 02 02 74 01 ffffffff 00 "
            "01 00 10 01 00000009 02 06 72616e6765 02 78 00 00",
        ),
        (
            ModernKey(RecordKind.CONSUMER_MEMBER, "g", "m"),
            ConsumerMemberValue("c", "/h", "i", regex="t.*", rebalance_timeout_ms=10_000),
            "0005 0001 67 0001 6d",
            "0000 02 69 00 02 63 03 2f68 01 04 742e2a 00002710 00 01 00 01 00",
        ),
    ],
)
def test_record_is_encoded_by_kafkas_schema(
    key: ModernKey, value: Any, raw_key: str, raw_value: str
) -> None:
    assert encode_record(key, value) == (bytes.fromhex(raw_key), bytes.fromhex(raw_value))


def test_state_of_a_later_version_is_unknown() -> None:
    raw = bytes.fromhex("0000 00000003 00000002 09 01 01 00")
    key = ModernKey(RecordKind.CONSUMER_CURRENT, "g", "m")
    decoded = decode_modern(key, raw)
    assert isinstance(decoded, CurrentAssignment)
    assert decoded.state is MemberState.UNKNOWN


def test_value_of_a_later_version_is_refused() -> None:
    key = ModernKey(RecordKind.CONSUMER_TARGET_EPOCH, "g")
    with pytest.raises(RecordFormatError, match="version"):
        decode_modern(key, bytes.fromhex("0001 00000003 00"))

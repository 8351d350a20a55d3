"""The records of the offsets topic."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.groups.group_records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    RecordFormatError,
    decode_group,
    decode_key,
    decode_offset,
    encode_key,
    encode_value,
)

TEXTS = st.text(max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.one_of(st.builds(OffsetKey, TEXTS, TEXTS, INT32), st.builds(GroupKey, TEXTS))
OFFSETS = st.builds(OffsetValue, INT64, INT32, TEXTS, INT64, st.just(-1))
MEMBERS = st.builds(
    MemberValue,
    TEXTS,
    st.none() | TEXTS,
    TEXTS,
    TEXTS,
    st.integers(0, 2**31 - 1),
    INT32,
    st.binary(),
    st.binary(),
)
GROUPS = st.builds(
    GroupValue,
    TEXTS,
    INT32,
    st.none() | TEXTS,
    st.none() | TEXTS,
    INT64,
    st.lists(MEMBERS, max_size=4).map(tuple),
)


@given(KEYS)
def test_encoded_keys_decode_to_the_same_keys(key: OffsetKey | GroupKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(OFFSETS)
def test_encoded_offsets_decode_to_the_same_offsets(value: OffsetValue) -> None:
    assert decode_offset(encode_value(value)) == value


@given(GROUPS)
def test_encoded_groups_decode_to_the_same_groups(value: GroupValue) -> None:
    assert decode_group(encode_value(value)) == value


@given(st.binary(max_size=60), st.sampled_from([decode_key, decode_offset, decode_group]))
def test_arbitrary_bytes_decode_or_raise_a_format_error(raw: bytes, decode: object) -> None:
    try:
        decode(raw)  # type: ignore[operator]
    except RecordFormatError:
        pass


@given(GROUPS, st.data())
def test_truncated_records_are_rejected(value: GroupValue, data: st.DataObject) -> None:
    raw = encode_value(value)
    with pytest.raises(RecordFormatError):
        decode_group(raw[: data.draw(st.integers(0, len(raw) - 1))])


def test_offset_is_encoded_as_in_kafka() -> None:
    assert encode_key(OffsetKey("g", "topic", 3)) == b"\0\1\0\1g\0\5topic\0\0\0\3"
    value = OffsetValue(offset=258, leader_epoch=7, metadata="m", commit_timestamp_ms=1)
    assert encode_value(value) == b"\0\3" + struct.pack(">qi", 258, 7) + b"\0\1m" + struct.pack(
        ">q", 1
    )
    value = OffsetValue(
        offset=258, leader_epoch=7, metadata="m", commit_timestamp_ms=1, expire_timestamp_ms=2
    )
    assert encode_value(value) == b"\0\1" + struct.pack(">q", 258) + b"\0\1m" + struct.pack(
        ">qq", 1, 2
    )
    assert decode_offset(encode_value(value)) == OffsetValue(258, -1, "m", 1, 2)


def test_group_is_encoded_as_in_kafka() -> None:
    assert encode_key(GroupKey("g")) == b"\0\2\0\1g"
    member = MemberValue("m", None, "c", "/h", 6, 5, b"sub", b"as")
    value = GroupValue("consumer", 4, "range", "m", 9, (member,))
    assert encode_value(value) == b"".join(
        (
            b"\0\3\0\10consumer",
            struct.pack(">i", 4),
            b"\0\5range\0\1m",
            struct.pack(">q", 9),
            b"\0\0\0\1\0\1m\xff\xff\0\1c\0\2/h",
            struct.pack(">ii", 6, 5),
            b"\0\0\0\3sub\0\0\0\2as",
        )
    )
    assert (
        encode_value(GroupValue("", 0, None, None, -1, ()))
        == b"\0\3\0\0\0\0\0\0\xff\xff\xff\xff" + b"\xff" * 8 + b"\0" * 4
    )


def test_older_versions_are_decoded() -> None:
    """Missing fields have Kafka's defaults."""
    assert decode_key(b"\0\0\0\1g\0\1t\0\0\0\2") == OffsetKey("g", "t", 2)
    for version in (0, 2):
        raw = struct.pack(">hq", version, 5) + b"\0\1m" + struct.pack(">q", 8)
        assert decode_offset(raw) == OffsetValue(5, -1, "m", 8, -1)
    member = b"\0\1m\0\1c\0\1h" + struct.pack(">i", 5) + b"\0\0\0\0" * 2
    raw = b"\0\0\0\0" + struct.pack(">i", 1) + b"\0\1p\0\1m" + struct.pack(">i", 1) + member
    assert decode_group(raw) == GroupValue(
        "", 1, "p", "m", -1, (MemberValue("m", None, "c", "h", 5, 5, b"", b""),)
    )


def test_keys_of_other_kinds_decode_to_none() -> None:
    """Kafka has groups of streams, whose records have such keys."""
    assert decode_key(b"\0\x11\0\1g") is None
    assert decode_key(b"\x7f\xff") is None


@pytest.mark.parametrize(
    ("version", "decode"), [(4, decode_offset), (-1, decode_offset), (4, decode_group)]
)
def test_unknown_value_versions_are_rejected(version: int, decode: object) -> None:
    with pytest.raises(RecordFormatError, match=f"between 0 and 3, got {version}"):
        decode(struct.pack(">h", version) + b"\0" * 40)  # type: ignore[operator]


def test_string_that_is_too_long_is_rejected() -> None:
    with pytest.raises(RecordFormatError, match="32767 bytes, got 40000"):
        encode_key(GroupKey("g" * 40_000))


def test_invalid_string_is_rejected() -> None:
    with pytest.raises(RecordFormatError, match="null"):
        decode_key(b"\0\2\xff\xff")
    with pytest.raises(RecordFormatError, match="UTF-8"):
        decode_key(b"\0\2\0\1\xff")

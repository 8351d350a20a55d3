"""Hash many strings at once, with NumPy on Arrow's buffers.

Spark's own hash functions are part of what a stream's checkpoint holds, so they must give Spark's
numbers. What no checkpoint holds is hashed by `hash_strings`, which is faster.

Sources: Y. Collet, "xxHash fast digest algorithm", the 64-bit variant; A. Appleby, "MurmurHash3",
the 32-bit variant. Spark's seed of both is 42.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from purgatory_spark._spark.arrays import Ints, Sizes, Words, text_of_strings

#: The seed of the first column of `xxhash64`. The hash of a column is the seed of the next one.
SEED = np.uint64(42)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE_BYTES = 32
_WORD_BYTES = 8
#: At position k, ones in the first k bytes of a little-endian word.
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_WORD_BYTES + 1)], dtype=np.uint64)
#: So many strings and their hashes fit into a core's cache.
_HASHED_ROWS = 16_384
_LANE_ROTATIONS = (1, 7, 12, 18)

_UINT32 = 2**32


def xxhash64(strings: pa.StringArray, seeds: Words) -> Words:
    """Hash strings as Spark's `xxhash64` does.

    >>> seeds = np.full(2, SEED)
    >>> xxhash64(pa.array(["a", "Spark"]), seeds).view(np.int64).tolist()
    [-8582455328737087284, -4294468057691064905]

    `strings`: an array without nulls. `seeds`: one number for each string: `SEED`, or the hash of
    the column before. Returns the hashes, whose bits as a signed number are Spark's bigint.
    """
    if not len(strings):
        return np.zeros(0, dtype=np.uint64)
    words, *places = words_of(strings)
    at, lengths = (numbers.astype(np.int64) for numbers in places)
    hashes: Words = seeds + _P5
    long = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if len(long):
        hashes[long] = _hash_stripes(words, at[long], lengths[long], seeds[long])
        at = at + lengths // _STRIPE_BYTES * _STRIPE_BYTES
    hashes += lengths.astype(np.uint64)
    # What is left of a string is at most three words, half a word, and three bytes.
    left = lengths % _STRIPE_BYTES
    for number in range(_STRIPE_BYTES // _WORD_BYTES - 1):
        rows = _some(left >= (number + 1) * _WORD_BYTES)
        word = words[at[rows] + number * _WORD_BYTES]
        hashes[rows] = _rotated(hashes[rows] ^ _round(np.uint64(0), word), 27) * _P1 + _P4
    at, left = at + left // _WORD_BYTES * _WORD_BYTES, left % _WORD_BYTES
    rows = _some(left >= _WORD_BYTES // 2)
    half = words[at[rows]] & np.uint64(_UINT32 - 1)
    hashes[rows] = _rotated(hashes[rows] ^ half * _P1, 23) * _P2 + _P3
    at, left = at + left // 4 * 4, left % 4
    for number in range(3):
        rows = _some(left > number)
        byte = words[at[rows] + number] & np.uint64(0xFF)
        hashes[rows] = _rotated(hashes[rows] ^ byte * _P5, 11) * _P1
    for shift, prime in ((33, _P2), (29, _P3)):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= prime
    hashes ^= hashes >> np.uint64(32)
    return hashes


def words_of(strings: pa.StringArray) -> tuple[Words, Sizes, Sizes]:
    """Return the text of strings as words.

    Returns the little-endian word of 8 bytes at each byte of the text, where zeros follow the text;
    where each string begins; and their numbers of bytes.
    """
    text, starts = text_of_strings(strings)
    buffer = np.zeros(len(text) + _WORD_BYTES, dtype=np.uint8)
    buffer[: len(text)] = text
    words: Words = np.ndarray((len(text) + 1,), dtype="<u8", buffer=buffer, strides=(1,))
    return words, starts[:-1], np.diff(starts)


def _some(chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Return an index of the chosen rows: that of all rows copies nothing."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)


def _hash_stripes(words: Words, at: Ints, lengths: Ints, seeds: Words) -> Words:
    """Hash the whole stripes of strings, without their lengths and what follows the stripes."""
    stripes = lengths // _STRIPE_BYTES
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for number in range(int(stripes.max())):
        rows = _some(stripes > number)
        start = at[rows] + number * _STRIPE_BYTES
        for lane, values in enumerate(lanes):
            values[rows] = _round(values[rows], words[start + lane * _WORD_BYTES])
    hashes: Words = np.zeros(len(at), dtype=np.uint64)
    for values, bits in zip(lanes, _LANE_ROTATIONS, strict=True):
        hashes += _rotated(values, bits)
    for values in lanes:
        hashes = (hashes ^ _round(np.uint64(0), values)) * _P1 + _P4
    return hashes


def _round(accumulator: Any, word: Words) -> Words:
    return _rotated(accumulator + word * _P2, 31) * _P1


def _rotated(words: Words, bits: int) -> Words:
    return words << np.uint64(bits) | words >> np.uint64(64 - bits)


def int_with_hash(wanted: int) -> int:
    """Return the integer of 32 bits that Spark's `hash` maps to a number of 32 bits.

    Each step of MurmurHash3 can be undone for a key of one word. Spark sends a row to the partition
    `pmod(hash(key), partitions)`. So keys with the hashes 0, 1, 2 and so on are spread evenly over
    any number of partitions.

    >>> [int_with_hash(number) for number in range(3)]
    [-1693959553, -1910889132, -1382833682]
    """
    word = wanted % _UINT32
    # The final mixing.
    word = _without_xor_shift(word, 16)
    word = _divided(word, 0xC2B2AE35)
    word = _without_xor_shift(word, 13)
    word = _divided(word, 0x85EBCA6B)
    word = _without_xor_shift(word, 16) ^ 4
    # Mixing the key's only word into the seed, and that word itself.
    word = _rotated_right(_divided(word - 0xE6546B64, 5), 13) ^ int(SEED)
    word = _divided(_rotated_right(_divided(word, 0x1B873593), 15), 0xCC9E2D51)
    return word - _UINT32 if word >= _UINT32 // 2 else word


def _divided(word: int, factor: int) -> int:
    """Return the word whose product with an odd factor is `word`, modulo 2^32."""
    return word * pow(factor, -1, _UINT32) % _UINT32


def _rotated_right(word: int, bits: int) -> int:
    return (word >> bits | word << (32 - bits)) % _UINT32


def _without_xor_shift(mixed: int, bits: int) -> int:
    """Return the word for which `word ^ (word >> bits)` is `mixed`.

    Each pass restores `bits` more of the highest bits.
    """
    word = mixed
    for _ in range(32 // bits):
        word = mixed ^ word >> bits
    return word


def hash_strings(strings: pa.Array, seeds: Words) -> Words:
    """Hash strings to 64 bits.

    Equal strings with equal seeds have equal hashes. Two others have the same one with the
    probability of random numbers, as long as nobody has searched for them. Null is a value of its
    own.

    >>> hashes = hash_strings(pa.array(["a", "b", "a", None, ""]), np.zeros(5, np.uint64)).tolist()
    >>> [hashes.index(number) for number in hashes]
    [0, 1, 0, 3, 4]
    """
    hashes: Words = np.empty(len(strings), dtype=np.uint64)
    for at in range(0, len(strings), _HASHED_ROWS):
        rows = slice(at, at + _HASHED_ROWS)
        hashes[rows] = _hash_some(strings[rows], seeds[rows])
    return hashes


def _hash_some(strings: pa.Array, seeds: Words) -> Words:
    words, at, left = words_of(strings)
    hashes: Words = _mixed(left.astype(np.uint64) + seeds)
    # The first words of all strings are mixed in, then the second words of those that have one.
    longer = None
    while True:
        word = words[at]
        word &= _MASKS.take(left, mode="clip")
        word *= _P2
        word ^= word >> np.uint64(31)
        if longer is None:
            hashes ^= word
            _mix(hashes)
        else:
            word ^= hashes[longer]
            _mix(word)
            hashes[longer] = word
        is_longer = left > _WORD_BYTES
        if not is_longer.all():
            further = np.flatnonzero(is_longer)
            if not len(further):
                break
            longer = further if longer is None else longer[further]
            at, left = at[further], left[further]
        at, left = at + np.int32(_WORD_BYTES), left - np.int32(_WORD_BYTES)
    if strings.null_count:
        is_null = strings.is_null().to_numpy(zero_copy_only=False)
        # A null must differ from an empty string.
        hashes[is_null] = _mixed(seeds[is_null] ^ _P3)
    return hashes


def _mix(words: Words) -> None:
    """Spread every bit over the whole word, in place."""
    words *= _P1
    words ^= words >> np.uint64(29)
    words *= _P2
    words ^= words >> np.uint64(32)


def _mixed(words: Words) -> Words:
    mixed = words.copy()
    _mix(mixed)
    return mixed

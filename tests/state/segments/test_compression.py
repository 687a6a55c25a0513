"""Segments with compressed blocks read like others, are smaller, and damage in them is found."""

from __future__ import annotations

import pytest

from beadline.errors import VersionError
from beadline.state.segments.segment import CODECS, TableChanges, decode_segment, encode_segment

CONTENT = {"count": TableChanges("value", False, {f"key {i}": i % 7 for i in range(20_000)})}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("by_key", [True, False])
def test_a_compressed_segment_reads_like_any_other(codec: str, by_key: bool) -> None:
    plain, compressed = encode_segment(CONTENT, 128, by_key), encode_segment(CONTENT, 128, by_key, codec)
    assert decode_segment(compressed) == decode_segment(plain) == CONTENT
    assert decode_segment(compressed, range(10, 20)) == decode_segment(plain, range(10, 20))
    assert len(compressed) < len(plain) / 2
    assert encode_segment({}, 128, codec=codec) == b""


def test_damage_and_unknown_codecs_are_named() -> None:
    data = encode_segment(CONTENT, 128, codec="lz4")
    damaged = bytearray(data)
    damaged[500] ^= 1
    with pytest.raises(VersionError, match="checksum of table 'count'"):
        decode_segment(bytes(damaged))
    other = encode_segment(CONTENT, 128, codec="gzip")
    with pytest.raises(VersionError, match="a segment is compressed with 'gzip', and this Beadline knows lz4 and zstd"):
        decode_segment(other)

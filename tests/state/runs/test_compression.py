"""Runs with compressed blocks read like others, are smaller, and damage in them is found."""

from __future__ import annotations

import pytest

from beadline.errors import VersionError
from beadline.state.runs.run import CODECS, TableChanges, decode_run, encode_run

CONTENT = {"count": TableChanges("value", False, {f"key {i}": i % 7 for i in range(20_000)})}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("by_key", [True, False])
def test_a_compressed_run_reads_like_any_other(codec: str, by_key: bool) -> None:
    plain, compressed = encode_run(CONTENT, 128, by_key), encode_run(CONTENT, 128, by_key, codec)
    assert decode_run(compressed) == decode_run(plain) == CONTENT
    assert decode_run(compressed, range(10, 20)) == decode_run(plain, range(10, 20))
    assert len(compressed) < len(plain) / 2
    assert encode_run({}, 128, codec=codec) == b""


def test_damage_and_unknown_codecs_are_named() -> None:
    data = encode_run(CONTENT, 128, codec="lz4")
    damaged = bytearray(data)
    damaged[500] ^= 1
    with pytest.raises(VersionError, match="checksum of table 'count'"):
        decode_run(bytes(damaged))
    other = encode_run(CONTENT, 128, codec="gzip")
    with pytest.raises(VersionError, match="a run is compressed with 'gzip', and this Beadline knows lz4 and zstd"):
        decode_run(other)

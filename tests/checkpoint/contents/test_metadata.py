"""``_metadata``: comes back as it was, reads well, and refuses whatever is not exactly what was written."""

from __future__ import annotations

import json
import math
import os
import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.checkpoint.contents import metadata
from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError, SnapshotKind
from beadline.graph.program import Program
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments.version import KeyedStateHandle, SegmentRef
from tests.checkpoint.snapshots import make_snapshot

FOLDER = "/data/job/chk-7"
A, B, C = (f"{letter * 32}.run" for letter in "abc")
PATH = FOLDER + "/_metadata"


def sample(**changes: Any) -> Snapshot:
    segments = (
        SegmentRef("v1", 3, 10, path=f"/data/job/shared/1/{A}", checksum="0011"),
        SegmentRef("v2", 1, 4, path=f"/data/job/chk-7/{B}", offset=5),
        SegmentRef("v3", 1, 2, path=f"/elsewhere/{C}"),
        SegmentRef("v4", 1, 2, inline=b"\x00\xff"),
    )
    operator = OperatorSnapshot(
        "uid",
        "täglich",
        2,
        128,
        keyed=(KeyedStateHandle("root", segments), None),
        position={"a": 1},
        operator_state=(None, OperatorStateHandle({"s": StateRef("list", segments[:1])})),
    )
    return Snapshot(7, "job", "名前", 70, 1234, (operator,), **changes)


def test_a_snapshot_comes_back_as_it_was(tmp_path: Path) -> None:
    for snapshot in (
        sample(),
        sample(kind=SnapshotKind.SAVEPOINT, epoch=3, counters={"records": 2**70}),
        sample(unaligned=True, in_flight={"source": {"offset": 5, "parts": (1, b"x", None)}}),
        make_snapshot(3, str(tmp_path / "shared")),
    ):
        assert metadata.decode(metadata.encode(snapshot, FOLDER), PATH) == snapshot


def test_the_program_comes_back_and_older_snapshots_have_none() -> None:
    program = Program("/jobs/täglich.py", ("--topic", "a"), "0f")
    written = metadata.encode(sample(program=program), FOLDER)
    assert metadata.decode(written, PATH).program == program
    body = json.loads(written)["snapshot"]
    assert body["program"] == {"script": "/jobs/täglich.py", "arguments": ["--topic", "a"], "graph": "0f"}
    del body["program"]
    assert metadata._snapshot_from_json(body, FOLDER).program == Program()


def test_people_and_tools_can_read_it() -> None:
    text = metadata.encode(sample(), FOLDER).decode()
    content = json.loads(text)
    assert content["beadline"] == "snapshot"
    assert content["format"] == 1
    assert content["snapshot"]["checkpoint_id"] == 7
    assert len(text.splitlines()) > 30


def test_paths_in_its_own_tree_are_relative_and_move_with_it() -> None:
    data = metadata.encode(sample(), FOLDER)
    paths = [segment.get("path") for segment in json.loads(data)["snapshot"]["operators"][0]["keyed"][0]["runs"]]
    assert paths == [f"../shared/1/{A}", B, f"/elsewhere/{C}", None]
    moved = metadata.decode(data, "/new/place/chk-7/_metadata")
    assert moved.files() == {f"/new/place/shared/1/{A}", f"/new/place/chk-7/{B}", f"/elsewhere/{C}"}


def test_relative_paths_of_object_stores_keep_their_query() -> None:
    folder = "s3://bucket/dir/job/chk-7?endpoint_override=host:9000"
    path = "s3://bucket/dir/job/shared/1/a.run?endpoint_override=host:9000"
    assert metadata.to_relative(path, folder) == "../shared/1/a.run"
    assert metadata.to_absolute("../shared/1/a.run", folder) == path


@pytest.mark.parametrize("name", ["../../other/shared/a.run", "../chk-6/a.run", "..", ".hidden", "a/../../b", ""])
def test_a_relative_path_does_not_leave_the_tree(name: str) -> None:
    with pytest.raises(SnapshotError, match="neither in its own tree"):
        metadata.to_absolute(name, FOLDER)


@pytest.mark.parametrize("name", [f"/data/../etc/{A}", f"/data/./{A}", f"s3://bucket/../{A}", f"file:///a/../{A}"])
def test_a_full_path_is_one_without_detours(name: str) -> None:
    with pytest.raises(SnapshotError, match=r"must not have '.' or '..' in it"):
        metadata.to_absolute(name, FOLDER)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/home/me/.ssh/id_rsa",
        f"/home/me/{A}x",
        f"/home/me/.{A}.0123abcd",
        f"/data/job/chk-7/{'a' * 31}.run",
        "/data/job/chk-7/_metadata",
        "s3://bucket/part-1.parquet",
        f"s3://bucket/x?y=/{A}",
    ],
)
def test_only_files_that_are_called_so_are_state(path: str) -> None:
    """Whatever a snapshot names is read, merged, and removed when nobody needs it any more."""
    body = json.loads(metadata.encode(sample(), FOLDER))["snapshot"]
    body["operators"][0]["keyed"][0]["runs"][0]["path"] = path
    with pytest.raises(SnapshotError, match="as state, and Beadline gives no file of state such a name"):
        metadata._snapshot_from_json(body, FOLDER)


@pytest.mark.parametrize("name", [A, f"{'0' * 32}-12.pack", f"{'0' * 32}-1-2f.state", f"part-00012-{'f' * 32}.parquet"])
def test_these_are(name: str) -> None:
    body = json.loads(metadata.encode(sample(), FOLDER))["snapshot"]
    body["operators"][0]["keyed"][0]["runs"][0]["path"] = name
    assert f"{FOLDER}/{name}" in metadata._snapshot_from_json(body, FOLDER).files()


def test_any_changed_byte_is_refused() -> None:
    data = metadata.encode(sample(), FOLDER)
    for position in range(len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(SnapshotError, match="/data/job/chk-7/_metadata"):
                metadata.decode(bytes(damaged), PATH)


def test_a_file_cut_anywhere_is_refused() -> None:
    data = metadata.encode(sample(), FOLDER)
    for length in range(len(data)):
        with pytest.raises(SnapshotError, match=r"/data/job/chk-7/_metadata .*(cut|damaged)"):
            metadata.decode(data[:length], PATH)
    with pytest.raises(SnapshotError, match="cut short or altered"):
        metadata.decode(data + b"\n", PATH)


@pytest.mark.parametrize("data", [b"\x00\x00\x00\x04 a Flink file", b"{}", b"[1]", b"beadline", pickle.dumps({"a": 1})])
def test_other_files_are_not_metadata(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="_metadata is not the metadata of a Beadline checkpoint"):
        metadata.decode(data, PATH)


def test_a_newer_format_is_refused_whatever_it_holds() -> None:
    data = metadata.encode(replace(sample(), format_version=2), FOLDER)
    with pytest.raises(SnapshotError, match=r"_metadata has format version 2, and this Beadline reads up to 1"):
        metadata.decode(data, PATH)
    with pytest.raises(SnapshotError, match="format version 12"):
        metadata.decode(b'{\n"beadline": "snapshot",\n"format": 12,\n"other": [', PATH)


def test_content_that_is_whole_and_makes_no_sense_is_refused() -> None:
    """Whoever can compute the checksum can still not surprise the reader."""
    for change in ({"operators": 5}, {"kind": "x"}, {"step": "1"}, {"job_id": None}, {"operators": [{"uid": 1}]}):
        content = json.loads(metadata.encode(sample(), FOLDER))["snapshot"]
        rest = b'"snapshot": ' + json.dumps({**content, **change}).encode() + b"\n}\n"
        version = b'"format": 1,\n'
        head = b'{\n"beadline": "snapshot",\n' + version
        data = head + b'"checksum": "xxh3_128:%b",\n' % metadata._digest(version, rest) + rest
        with pytest.raises(SnapshotError, match="/data/job/chk-7/_metadata"):
            metadata.decode(data, PATH)


class _Hostile:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (self.marker,)


def test_a_hostile_pickle_stays_bytes(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hostile = pickle.dumps(_Hostile(str(marker)))
    operator = OperatorSnapshot(
        "u", "n", 1, 1, locals=(hostile,), position={"p": hostile}, committables=hostile,
        operator_state=(
            OperatorStateHandle({"s": StateRef("list", (SegmentRef("v", 1, len(hostile), inline=hostile),))}),
        ),
    )  # fmt: skip
    snapshot = Snapshot(1, "j", "n", 1, 1, (operator,))
    read = metadata.decode(metadata.encode(snapshot, FOLDER), PATH)
    assert read.operators[0].locals == (hostile,)
    assert not marker.exists()
    pickle.loads(hostile)  # it would have run
    assert marker.exists()


class _Point(NamedTuple):
    x: int


@pytest.mark.parametrize(
    "value", [Decimal(1), {1, 2}, _Point(1), object(), [{"a": (object(),)}], SnapshotKind.SAVEPOINT]
)
def test_what_is_not_plain_data_is_refused_by_name(value: Any) -> None:
    snapshot = Snapshot(1, "j", "n", 1, 1, (OperatorSnapshot("u", "orders", 1, 1, position={"p": value}),))
    with pytest.raises(SnapshotError, match=r"position of source 'orders' holds a .*, which is not plain data"):
        metadata.encode(snapshot, FOLDER)


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.sampled_from(["$bytes", "$tuple", "$dict", "$float"]), inner)
        | st.dictionaries(st.integers() | st.binary() | st.booleans() | st.tuples(st.integers(), st.text()), inner)
    ),
    max_leaves=20,
)


def _typed(value: Any) -> Any:
    """With types, because ``1 == True == 1.0``."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_typed(item) for item in value]
    if isinstance(value, dict):
        return "dict", [(_typed(k), _typed(v)) for k, v in value.items()]
    return type(value).__name__, repr(value)


@given(_plain)
def test_plain_data_come_back_with_their_types(value: Any) -> None:
    text = json.dumps(metadata.to_plain(value, "it"), allow_nan=False)
    assert _typed(metadata.from_plain(json.loads(text))) == _typed(value)


def test_nan_and_infinities() -> None:
    values = [math.inf, -math.inf]
    assert metadata.from_plain(json.loads(json.dumps(metadata.to_plain(values, "it"), allow_nan=False))) == values
    assert math.isnan(metadata.from_plain(metadata.to_plain(math.nan, "it")))

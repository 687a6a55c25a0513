"""The ``_metadata`` of a checkpoint: a snapshot as JSON that a person can read and no reader has to trust.

The file is one JSON object whose first lines name what it is, the version of the format and a checksum over all that
follows::

    {
    "beadline": "snapshot",
    "format": 1,
    "checksum": "xxh3_128:5a…",
    "snapshot": {
      …
    }
    }

Plain data are None, bool, int, float, str, bytes, and lists, tuples and dictionaries of them. What JSON has no word for
is an object with one key: ``{"$bytes": base64}``, ``{"$tuple": […]}``, ``{"$float": "nan"}``, ``{"$dict": [[key,
value], …]}``. Nothing is unpickled here: what operators pickled stays bytes.

Paths inside the checkpoint's own tree (its folder, and ``shared`` next to it) are relative to its folder, so that the
tree can be moved.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import asdict
from typing import Any

import xxhash

from beadline.checkpoint.contents.snapshot import (
    FORMAT_VERSION,
    OperatorSnapshot,
    Snapshot,
    SnapshotError,
    SnapshotKind,
)
from beadline.graph.program import Program
from beadline.state.description import StateDescription
from beadline.state.operator.handles import OperatorStateHandle, StateRef
from beadline.state.segments.files import join, local_path, names_state, parent
from beadline.state.segments.version import KeyedStateHandle, SegmentRef

METADATA = "_metadata"
SHARED = "shared"

_MAGIC = b'{\n"beadline": "snapshot",\n'
_FORMAT = re.compile(rb'"format": (\d{1,9}),\n')
_CHECKSUM = re.compile(rb'"checksum": "xxh3_128:([0-9a-f]{32})",\n')
_NAME = r"[A-Za-z0-9][\w.=-]*"
_RELATIVE = re.compile(rf"(\.\./{SHARED}/)?({_NAME}/)*{_NAME}")


# -- a whole file


def encode(snapshot: Snapshot, folder: str) -> bytes:
    """The content of ``_metadata`` for a snapshot that is going to lie in ``folder``."""
    body = json.dumps(_snapshot_to_json(snapshot, folder), indent=1, allow_nan=False)
    rest = b'"snapshot": ' + body.encode() + b"\n}\n"
    version = b'"format": %d,\n' % snapshot.format_version
    return b'%b%b"checksum": "xxh3_128:%b",\n%b' % (_MAGIC, version, _digest(version, rest), rest)


def _digest(version: bytes, rest: bytes) -> bytes:
    return xxhash.xxh3_128_hexdigest(version + rest).encode()


def decode(data: bytes, path: str) -> Snapshot:
    """The snapshot in the content of a ``_metadata`` that was read from ``path``.

    1. is it one of ours
    2. is its version one that we know
    3. is it whole, as its checksum says
    4. only then parse it
    """
    if not data.startswith(_MAGIC):
        if _MAGIC.startswith(data):
            raise SnapshotError(f"{path} is cut short: it has only {len(data)} bytes")
        raise SnapshotError(f"{path} is not the metadata of a Beadline checkpoint or savepoint")
    version = _FORMAT.match(data, len(_MAGIC))
    if version is None:
        raise SnapshotError(f"{path} is damaged: it names no format version")
    if int(version[1]) > FORMAT_VERSION:
        raise SnapshotError(
            f"{path} has format version {int(version[1])}, and this Beadline reads up to {FORMAT_VERSION}: "
            "use the version of Beadline that wrote it, or a newer one"
        )
    checksum = _CHECKSUM.match(data, version.end())
    if checksum is None:
        raise SnapshotError(f"{path} is damaged: it names no checksum")
    found = _digest(version[0], data[checksum.end() :])
    if found != checksum[1]:
        raise SnapshotError(
            f"{path} is cut short or altered: its checksum is {found.decode()} and should be {checksum[1].decode()}"
        )
    try:
        return _snapshot_from_json(json.loads(data)["snapshot"], parent(path))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise SnapshotError(f"{path} is not well formed: {type(error).__name__} {error}") from error


# -- plain data


def to_plain(value: Any, what: str) -> Any:
    """Plain data in JSON's terms. ``what`` names the value in the error."""
    kind = value.__class__
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    if kind is list:
        return [to_plain(item, what) for item in value]
    if kind is tuple:
        return {"$tuple": [to_plain(item, what) for item in value]}
    if kind is dict:
        if all(key.__class__ is str and not key.startswith("$") for key in value):
            return {key: to_plain(item, what) for key, item in value.items()}
        return {"$dict": [[to_plain(key, what), to_plain(item, what)] for key, item in value.items()]}
    raise SnapshotError(
        f"{what} holds a {kind.__module__}.{kind.__qualname__}, which is not plain data: a checkpoint takes None, "
        "bool, int, float, str, bytes, and lists, tuples and dictionaries of them"
    )


def from_plain(value: Any) -> Any:
    """The value that :func:`to_plain` had."""
    if value.__class__ is list:
        return [from_plain(item) for item in value]
    if value.__class__ is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "$bytes":
            return base64.b64decode(inner, validate=True)
        if key == "$tuple":
            return tuple(from_plain(item) for item in inner)
        if key == "$float":
            return float(inner)
        if key == "$dict":
            return {from_plain(k): from_plain(v) for k, v in inner}
    return {key: from_plain(item) for key, item in value.items()}


# -- paths


def to_relative(path: str, folder: str) -> str:
    """How a checkpoint in ``folder`` names a file: relative within its own tree, in full otherwise."""
    for tree, prefix in ((folder, ""), (join(parent(folder), SHARED), f"../{SHARED}/")):
        base, _, query = tree.partition("?") if local_path(tree) is None else (tree, "", "")
        start = base.rstrip("/") + "/"
        if path.startswith(start) and path.endswith(f"?{query}" if query else ""):
            inside = path[len(start) : len(path) - len(query) - 1 if query else None]
            if _RELATIVE.fullmatch(prefix + inside):
                return prefix + inside
    return path


def to_absolute(name: str, folder: str) -> str:
    """Where the file is that a checkpoint in ``folder`` names."""
    if name.startswith("/") or "://" in name:
        if not {".", ".."}.isdisjoint((local_path(name) or name).split("/")):
            raise SnapshotError(f"it names the file {name!r}: a full path must not have '.' or '..' in it")
        return name
    if not _RELATIVE.fullmatch(name):
        raise SnapshotError(f"it names the file {name!r}, which is neither in its own tree nor a full path")
    if name.startswith("../"):
        return join(parent(folder), name.removeprefix("../"))
    return join(folder, name)


# -- the parts of a snapshot


def _snapshot_to_json(snapshot: Snapshot, folder: str) -> dict[str, Any]:
    return {
        "kind": snapshot.kind.value,
        "checkpoint_id": snapshot.checkpoint_id,
        "job_id": snapshot.job_id,
        "job_name": snapshot.job_name,
        "epoch": snapshot.epoch,
        "lineage": snapshot.lineage,
        "topology": snapshot.topology,
        "program": program_to_json(snapshot.program),
        "step": snapshot.step,
        "timestamp": snapshot.timestamp,
        "unaligned": snapshot.unaligned,
        "in_flight": {
            uid: to_plain(position, f"the in-flight position of source '{uid}'")
            for uid, position in snapshot.in_flight.items()
        },
        "counters": dict(snapshot.counters),
        "operators": [_operator_to_json(operator, folder) for operator in snapshot.operators],
    }


def _snapshot_from_json(read: dict[str, Any], folder: str) -> Snapshot:
    return Snapshot(
        checkpoint_id=_int(read["checkpoint_id"]),
        job_id=_str(read["job_id"]),
        job_name=_str(read["job_name"]),
        step=_int(read["step"]),
        timestamp=_int(read["timestamp"]),
        operators=tuple(_operator_from_json(operator, folder) for operator in read["operators"]),
        kind=SnapshotKind(read["kind"]),
        unaligned=bool(read["unaligned"]),
        in_flight={uid: _dict(from_plain(position)) for uid, position in read["in_flight"].items()},
        counters={name: _int(count) for name, count in read["counters"].items()},
        epoch=_int(read["epoch"]),
        lineage=_str(read.get("lineage", "")),
        topology=_str(read.get("topology", "")),
        program=program_from_json(read.get("program", {})),
    )


def program_to_json(program: Program) -> dict[str, Any]:
    return {"script": program.script, "arguments": list(program.arguments), "graph": program.graph}


def program_from_json(read: dict[str, Any]) -> Program:
    """The program that was noted; older snapshots have none."""
    arguments = tuple(_str(argument) for argument in read.get("arguments", ()))
    return Program(_str(read.get("script", "")), arguments, _str(read.get("graph", "")))


def _operator_to_json(operator: OperatorSnapshot, folder: str) -> dict[str, Any]:
    return {
        "uid": operator.uid,
        "generated_uid": operator.generated_uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "key_type": operator.key_type,
        "states": [asdict(state) for state in operator.state_descriptions],
        "position": to_plain(operator.position, f"the position of source '{operator.name}'"),
        "finished": operator.finished,
        "parts": to_plain(dict(operator.parts), f"the parts of '{operator.name}'"),
        "committables": to_plain(operator.committables, f"what sink '{operator.name}' is to commit"),
        "next_timers": list(operator.next_timers),
        "locals": [to_plain(local, f"the state of '{operator.name}'") for local in operator.locals],
        "keyed": [
            handle and {"root": handle.root, "runs": [_segment_to_json(segment, folder) for segment in handle.segments]}
            for handle in operator.keyed
        ],
        "operator_state": [states and _states_to_json(states, folder) for states in operator.operator_state],
    }


def _operator_from_json(read: dict[str, Any], folder: str) -> OperatorSnapshot:
    locals_ = tuple(from_plain(local) for local in read["locals"])
    if not all(local is None or local.__class__ is bytes for local in locals_):
        raise SnapshotError(f"the local state of operator '{read['uid']}' is not bytes")
    return OperatorSnapshot(
        uid=_str(read["uid"]),
        generated_uid=bool(read["generated_uid"]),
        name=_str(read["name"]),
        parallelism=_int(read["parallelism"]),
        max_parallelism=_int(read["max_parallelism"]),
        state_descriptions=tuple(_description_from_json(state) for state in read["states"]),
        key_type=_str(read.get("key_type", "")),
        position=None if read["position"] is None else _dict(from_plain(read["position"])),
        finished=bool(read["finished"]),
        parts=_dict(from_plain(read.get("parts", {}))),
        committables=from_plain(read["committables"]),
        next_timers=tuple(None if timer is None else _int(timer) for timer in read["next_timers"]),
        locals=locals_,
        keyed=tuple(
            h and KeyedStateHandle(_str(h["root"]), tuple(_segment_from_json(r, folder) for r in h["runs"]))
            for h in read["keyed"]
        ),
        operator_state=tuple(
            None if states is None else _states_from_json(states, folder) for states in read["operator_state"]
        ),
    )


def _description_from_json(read: dict[str, Any]) -> StateDescription:
    texts = {key: _str(read[key]) for key in ("name", "kind", "type", "map_key_type", "scope", "descriptor")}
    ttl_ms = None if read["ttl_ms"] is None else _int(read["ttl_ms"])
    return StateDescription(**texts, namespaced=bool(read["namespaced"]), ttl_ms=ttl_ms)


def _states_to_json(handle: OperatorStateHandle, folder: str) -> dict[str, Any]:
    return {
        name: {"mode": ref.mode, "runs": [_segment_to_json(segment, folder) for segment in ref.own_parts]}
        for name, ref in handle.states.items()
    }


def _states_from_json(read: dict[str, Any], folder: str) -> OperatorStateHandle:
    states = {}
    for name, state in read.items():
        segments = tuple(_segment_from_json(segment, folder) for segment in state["runs"])
        states[name] = StateRef(_str(state["mode"]), segments, tuple(range(len(segments))))
    return OperatorStateHandle(states)


def _segment_to_json(segment: SegmentRef, folder: str) -> dict[str, Any]:
    written: dict[str, Any] = {"version": segment.version, "entries": segment.entries, "size": segment.size}
    if segment.checksum is not None:
        written["checksum"] = segment.checksum
    if segment.groups is not None:
        written["groups"] = list(segment.groups)
    if segment.counted is not None:
        written["counted"] = segment.counted
    if not segment.is_own:
        written["foreign"] = True
    if segment.inline is not None:
        written["inline"] = base64.b64encode(segment.inline).decode()
    else:
        assert segment.path is not None
        written["path"] = to_relative(segment.path, folder)
        written["offset"] = segment.offset
    return written


def _segment_from_json(read: dict[str, Any], folder: str) -> SegmentRef:
    version, entries, size = _str(read["version"]), _int(read["entries"]), _int(read["size"])
    checksum = _str(read["checksum"]) if "checksum" in read else None
    groups = (_int(read["groups"][0]), _int(read["groups"][1])) if "groups" in read else None
    counted = _int(read["counted"]) if "counted" in read else None
    foreign = True if "foreign" in read else None
    if "inline" in read:
        inline = base64.b64decode(read["inline"], validate=True)
        if len(inline) != size:
            raise SnapshotError(f"segment {version} has {len(inline)} bytes and should have {size}")
        return SegmentRef(version, entries, size, inline, None, 0, checksum, groups, counted, foreign)
    path = to_absolute(_str(read["path"]), folder)
    if not names_state(path):
        raise SnapshotError(
            f"it names {path!r} as state, and Beadline gives no file of state such a name. Did Beadline write it?"
        )
    offset = _int(read["offset"])
    return SegmentRef(version, entries, size, None, path, offset, checksum, groups, counted, foreign)


def _int(value: Any) -> int:
    if value.__class__ is not int:
        raise SnapshotError(f"a whole number should be there, not {str(value)[:200]}")
    return int(value)


def _dict(value: Any) -> dict[str, Any]:
    if value.__class__ is not dict:
        raise SnapshotError(f"an object should be there, not {str(value)[:200]}")
    return dict(value)


def _str(value: Any) -> str:
    if value.__class__ is not str:
        raise SnapshotError(f"a text should be there, not {str(value)[:200]}")
    return str(value)

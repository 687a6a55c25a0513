"""A snapshot as it is stored: an archive with all that the job left in its folder, and where in it the snapshot is.

Metadata name output and input by full paths. The archives have them as they were written, below :data:`ROOT`; they are
changed when one is unpacked elsewhere.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from tests.old_snapshots.job import write_text

#: The folder of each job whose snapshot is stored, while it ran.
ROOT = Path("/tmp/beadline-old-snapshots")
_NOTE = "note.json"


@dataclass(frozen=True)
class Stored:
    """One archive.

    :ivar snapshot: where the snapshot is, relative to the folder of the job
    :ivar since: the first number that the job had not read
    """

    archive: Path
    snapshot: str
    since: int

    @classmethod
    def read(cls, archive: Path) -> Stored:
        with tarfile.open(archive) as files:
            member = files.extractfile(_NOTE)
            assert member is not None
            return cls(archive, **json.load(member))

    def pack(self, staged: bool) -> None:
        """Write the archive, with the snapshot and with what the job has published.

        :param staged: also what the sinks have staged
        """
        kind = Path(self.snapshot).parts[0]
        with tarfile.open(self.archive, "w:gz") as files:
            for name in (kind if kind == "checkpoints" else self.snapshot, "out", "copied"):
                for path in sorted((ROOT / name).rglob("*")):
                    inside = path.relative_to(ROOT)
                    if path.is_file() and (staged or not any(part.startswith(".") for part in inside.parts)):
                        _add(files, str(inside), _anonymous(path))
            _add(files, _NOTE, json.dumps({"snapshot": self.snapshot, "since": self.since}).encode())

    def unpack(self, folder: Path) -> Path:
        """Everything as it was when the job ended, in another folder; gives the path of the snapshot."""
        with tarfile.open(self.archive) as files:
            # Early releases of Python 3.11 know no filters; the archive is the project's own.
            files.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        (folder / _NOTE).unlink()
        for name in ("out", "copied"):
            (folder / name).mkdir(exist_ok=True)
        for path in folder.rglob("_metadata"):
            path.write_bytes(_moved(path.read_bytes(), folder))
        write_text(folder)
        return folder / self.snapshot


def snapshot_in(path: Path) -> Any:
    """The content of a snapshot's metadata."""
    return json.loads((path / "_metadata").read_bytes())["snapshot"]


def _anonymous(path: Path) -> bytes:
    """The content of a file; leases don't say on which machine."""
    data = path.read_bytes()
    if not path.name.startswith(("lease-", "fence-")):
        return data
    note = json.loads(data)
    note["owner"] = "somebody@somewhere (process 1)"
    note["process"] = {"place": "somewhere", "number": 1, "started": "1"}
    return json.dumps(note, indent=1).encode()


def _add(files: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file that tells nothing of who packed it."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    files.addfile(member, io.BytesIO(data))


def _moved(metadata: bytes, folder: Path) -> bytes:
    """Metadata of a job that had another folder."""
    *head, version, checksum, body = metadata.split(b"\n", 4)
    assert checksum == _checksum(version, body), "the stored metadata is damaged"
    body = body.replace(str(ROOT).encode(), str(folder).encode())
    return b"\n".join([*head, version, _checksum(version, body), body])


def _checksum(version: bytes, body: bytes) -> bytes:
    return b'"checksum": "xxh3_128:%b",' % xxhash.xxh3_128_hexdigest(version + b"\n" + body).encode()

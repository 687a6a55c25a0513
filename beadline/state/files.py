"""Where runs live: one folder that all workers reach. Files are named by content, written under another name and
renamed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from beadline.errors import VersionError
from beadline.state.version import RunRef


class RunFiles:
    """Reads and writes run files below a folder: a local path, or any URI that ``pyarrow.fs`` knows."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._remote: Any = None
        if "://" in root and not root.startswith("file://"):
            from pyarrow import fs

            self._remote, self._path = fs.FileSystem.from_uri(root)
        else:
            self._path = root.removeprefix("file://")

    def __repr__(self) -> str:
        return f"<RunFiles {self.root}>"

    def write(self, name: str, data: bytes) -> str:
        """Store a file and give its path. Writing the same content again changes nothing."""
        path = f"{self._path}/{name}"
        temporary = f"{self._path}/.{name}.{uuid.uuid4().hex[:8]}"
        if self._remote is not None:
            with self._remote.open_output_stream(temporary) as stream:
                stream.write(data)
            self._remote.move(temporary, path)
        else:
            Path(temporary).write_bytes(data)
            os.replace(temporary, path)
        return path

    def read(self, run: RunRef) -> bytes:
        """The bytes of a run, wherever it is."""
        if run.inline is not None:
            return run.inline
        assert run.path is not None
        try:
            if self._remote is not None:
                with self._remote.open_input_file(run.path) as stream:
                    data: bytes = stream.read_at(run.size, run.offset)
            else:
                with open(run.path, "rb") as stream:
                    stream.seek(run.offset)
                    data = stream.read(run.size)
        except OSError as error:
            raise VersionError(f"can't read {run!r}: {error}") from error
        if len(data) != run.size:
            raise VersionError(f"{run!r} is cut short: {len(data)} bytes")
        return data

    def delete(self, path: str) -> None:
        """Remove a file that no handle names any more."""
        try:
            if self._remote is not None:
                self._remote.delete_file(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

"""A program's files and packages for functions that run in the driver's own process."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile

from beadline import pyflink_alias
from beadline.errors import UnsupportedFeatureError
from beadline.master.shipping.dependencies import Dependencies
from beadline.master.shipping.requirements import requirements_archive
from beadline.master.shipping.shipment import put_on_own_path
from beadline.runtime.worker.surroundings import CachedFile, Surroundings, Unpacked


def surroundings_here(wanted: Dependencies) -> Surroundings:
    """Give this process what the program asked for its workers."""
    wanted.check()
    if wanted.archives:
        raise UnsupportedFeatureError(
            f"add_python_archive({wanted.archives[0].path!r}): workers find archives in a working directory of their "
            "own, but the local engine runs functions in this process, in its directory. Use the Spark engine."
        )
    put_on_own_path(wanted.python_files)
    if wanted.requirements is not None:
        folder = tempfile.mkdtemp(prefix="beadline-packages-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        shutil.unpack_archive(requirements_archive(wanted.requirements), folder)
        sys.path.insert(0, folder)
    cached = tuple(CachedFile(file.name, Unpacked(file.path), file.executable) for file in wanted.cached_files)
    return Surroundings(pyflink_names=pyflink_alias.is_installed(), cached_files=cached)

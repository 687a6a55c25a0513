"""Folders for records that wait between jobs, where the executors reach them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from beadline.datastream.environment import options
from beadline.errors import ConfigurationError, UnsupportedFeatureError
from beadline.state.segments.files import local_path

if TYPE_CHECKING:
    from beadline.datastream.stream_execution_environment import StreamExecutionEnvironment


def make_folder(env: StreamExecutionEnvironment, one_machine: bool, call: str, contents: str, prefix: str) -> str:
    """A new folder, removed when the program ends at the latest.

    :param one_machine: whether the workers are on this machine
    :param call: what needs it, for the errors
    """
    shared = env._configuration.get_string(options.CHECKPOINT_DIR, None)
    if shared is None and not one_machine:
        raise ConfigurationError(
            f"{call} on a cluster needs a folder that all executors reach: set execution.checkpointing.dir"
        )
    base = None if shared is None else local_path(shared)
    if shared is not None and base is None:
        raise UnsupportedFeatureError(f"{call} needs a mounted folder for {contents}, not {shared}")
    if base is not None:
        os.makedirs(base, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=prefix, dir=base)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

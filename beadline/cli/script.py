"""Run a user's script the way ``python script.py`` runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def run_script(script: Path, args: Sequence[str]) -> None:
    """Run *script* as ``__main__``, with *args* as its arguments.

    1. Compile the file; a syntax error is raised before anything has changed.
    2. Put a fresh module in ``sys.modules['__main__']``. ``runpy`` would take it away again when the script ends, but
       threads of the script may live longer, and cloudpickle ships by value only what belongs to ``__main__``.
    3. Set ``sys.argv`` and ``sys.path[0]``, so that the script finds its arguments and its neighbours.
    4. Run it. Whatever it raises comes out unchanged.
    """
    path = str(script.absolute())
    loader = SourceFileLoader("__main__", path)
    code = loader.source_to_code(loader.get_data(path), path)

    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = loader
    sys.modules["__main__"] = main

    sys.argv = [str(script), *args]
    if not sys.flags.safe_path:  # with `python -P` the first entry is no script's folder
        sys.path[0] = str(script.resolve().parent)

    exec(code, main.__dict__)

"""A program whose jobs fail, each in its own way; what a user would see of each goes to standard error.

Usage: failing.py [CASE]. Without a case all of them run, and each error is told twice: as ``python`` and as ``beadline
run`` would tell it. With one, nobody catches its error.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

from beadline.cli.script import report_failure
from beadline.common import Types
from beadline.datastream import StreamExecutionEnvironment

lock = threading.Lock()


def helper(levels: int, value: int) -> int:
    if levels == 0:
        raise ValueError(f"bad value {value}")
    return other_helper(levels - 1, value)


def other_helper(levels: int, value: int) -> int:
    return helper(levels, value)


def locked(value: int) -> int:
    with lock:
        return value


def imports(value: int) -> int:
    import not_there_at_all  # type: ignore[import-not-found]

    return int(not_there_at_all.f(value))


def ghost() -> Any:
    """A function of a module that the driver has and the workers have not."""
    module = types.ModuleType("ghost")
    exec("def spook(value):\n    return value\n", module.__dict__)
    sys.modules["ghost"] = module
    return module.spook


def deep(numbers: Any) -> Any:
    return numbers.map(lambda v: helper(10, v) if v == 5 else v).name("deep")


def in_lambda(numbers: Any) -> Any:
    return numbers.map(lambda v: 1 // (v - 5)).name("divide")


def unpicklable(numbers: Any) -> Any:
    return numbers.map(locked).name("locking")


def missing_import(numbers: Any) -> Any:
    return numbers.map(imports).name("importing")


def missing_module(numbers: Any) -> Any:
    return numbers.map(ghost()).name("haunted")


def wrong_type(numbers: Any) -> Any:
    return numbers.map(lambda v: "x" if v == 5 else v, output_type=Types.LONG()).name("typed")


def dying(numbers: Any) -> Any:
    return numbers.map(lambda v: os._exit(1) if v == 5 else v).name("dying")


def chatty(numbers: Any) -> Any:
    """What user code writes to standard error is the user's."""
    return numbers.map(lambda v: print("from a worker", file=sys.stderr) if v == 5 else v)


CASES = [deep, in_lambda, unpicklable, missing_import, missing_module, wrong_type, dying, chatty]


def run(case: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    if case in (missing_import, missing_module, unpicklable):
        env.enable_checkpointing(1000)  # and with it restarts
    case(env.from_collection(list(range(10)))).print()
    env.execute()


def main() -> None:
    wanted = [case for case in CASES if case.__name__ in sys.argv[1:]]
    for case in wanted:
        run(case)
    if wanted:
        return
    for case in CASES:
        announce(case, "running")
        try:
            run(case)
        except Exception as error:
            announce(case, "python")
            sys.excepthook(type(error), error, error.__traceback__)
            announce(case, "command")
            report_failure(error, Path(__file__))


def announce(case: Any, what: str) -> None:
    print(f"--- {case.__name__} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""The job as a program of its own, to be killed, stopped and resumed: ``program.py FOLDER RECORDS PACE [OUT [FORM]]``.

Lines go to text files, or to ``parquet`` files.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from beadline.common.outer_options import get_overrides
from tests.recovery import dying
from tests.recovery.jobs import ENGINE, environment, lines_of, to_files, to_parquet
from tests.sessions import start_session


def main(folder: str, records: str, pace: str, out: str | None = None, form: str = "text") -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if dying.VARIABLE in os.environ:
        dying.prepare(os.environ[dying.VARIABLE])
    if get_overrides().get(ENGINE) != "local":
        start_session()
    (Path(folder) / "out").mkdir(exist_ok=True)
    env = environment(folder, get_overrides())
    lines = lines_of(env, int(records), folder, pace=float(pace))
    if form == "parquet":
        assert out is not None
        to_parquet(lines, out)
    else:
        to_files(lines, folder, out=out)
    env.execute("recovery")
    print("the job has ended", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

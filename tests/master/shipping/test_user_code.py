"""Which files belong to a program: found in processes that are started as users start theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import beadline as package

Write = Callable[[dict[str, str]], None]

SHOW = """
def show():
    import json
    from beadline.master.shipping.user_code import find_user_code, user_path
    code = find_user_code()
    print(json.dumps({"files": {name: str(file) for name, file in code.files.items()},
                      "zips": [str(path) for path in code.zips], "modules": sorted(code.modules),
                      "left_out": [str(file) for file in code.left_out], "path": user_path()}))
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return write


def found(*command: str, cwd: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_what_is_imported_now_or_later_is_found(write: Write, tmp_path: Path) -> None:
    write(
        {
            "job/main.py": SHOW
            + """
import os, sys
sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "more")]
import helper, shapes, numpy
from loose.deep import rules
def later():
    import late, statistics, notthere, yaml
    from loose import other
    import importlib
    importlib.import_module("by_name")
show()
""",
            "job/helper.py": "HERE = __file__\nNAMES = ['data.json', 'tables', '../secret']\n",
            "job/data.json": "{}",
            "job/tables/one.csv": "1",
            "job/unnamed.json": "{}",
            "job/late.py": "def f():\n    from elsewhere import thing\n",
            "job/by_name.py": "",
            "job/untouched.py": "",
            "job/shapes/__init__.py": "from . import square\n",
            "job/shapes/square.py": "",
            "job/shapes/unused.py": "",
            "job/shapes/units.txt": "m",
            "job/shapes/__pycache__/square.pyc": "",
            "job/shapes/.hidden": "",
            "job/shapes/venv/pyvenv.cfg": "",
            "job/shapes/venv/lib.py": "",
            "job/loose/deep/rules.py": "from ..other import x\n",
            "job/loose/other.py": "x = 1\n",
            "job/loose/unused.py": "",
            "more/elsewhere.py": "thing = 1\n",
            "more/statistics.py": "raise AssertionError('the standard one comes first')\n",
            "secret": "",
        }
    )
    answer = found("job/main.py", cwd=tmp_path)
    assert set(answer["files"]) == {
        "helper.py",
        "data.json",
        "tables/one.csv",
        "late.py",
        "by_name.py",
        "shapes/__init__.py",
        "shapes/square.py",
        "shapes/unused.py",
        "shapes/units.txt",
        "loose/deep/rules.py",
        "loose/other.py",
        "elsewhere.py",
    }
    assert answer["modules"] == ["by_name", "elsewhere", "helper", "late", "loose", "shapes"]
    assert {str(tmp_path / "job"), str(tmp_path / "more")} <= set(answer["path"])
    assert not any("site-packages" in path or "/lib/python" in path for path in answer["path"])


def test_a_package_that_is_run_as_a_module(write: Write, tmp_path: Path) -> None:
    write(
        {
            "app/__init__.py": "",
            "app/main.py": SHOW + "\nfrom . import model\ndef later():\n    from .parts.deep import x\nshow()\n",
            "app/model.py": "",
            "app/parts/deep.py": "from ...lost import y\nfrom beside import z\n",
            "beside.py": "z = 1\n",
        }
    )
    answer = found("-m", "app.main", cwd=tmp_path)
    assert set(answer["files"]) == {
        "app/__init__.py",
        "app/main.py",
        "app/model.py",
        "app/parts/deep.py",
        "beside.py",
    }


def test_a_script_behind_a_link_has_the_neighbours_of_the_file(write: Write, tmp_path: Path) -> None:
    write({"real place/main.py": SHOW + "\nimport helper\nshow()\n", "real place/helper.py": "", "links/x": ""})
    (tmp_path / "links" / "job.py").symlink_to(tmp_path / "real place" / "main.py")
    (tmp_path / "real place" / "circle").symlink_to(tmp_path / "real place")
    answer = found("links/job.py", cwd=tmp_path)
    assert answer["files"] == {"helper.py": str(tmp_path / "real place" / "helper.py")}


def test_modules_in_an_archive_on_the_path(write: Write, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        archive.writestr("inside.py", "")
    write({"main.py": SHOW + "\nimport sys\nsys.path.append('modules.zip')\nimport inside\nshow()\n"})
    answer = found("main.py", cwd=tmp_path)
    assert answer["zips"] == [str(tmp_path / "modules.zip")]
    assert answer["files"] == {}


def test_large_data_is_left_out_and_named(write: Write, tmp_path: Path) -> None:
    write({"main.py": SHOW + "\nimport pkg\nshow()\n", "pkg/__init__.py": "", "pkg/small.bin": "1", "pkg/z.py": ""})
    with (tmp_path / "pkg" / "large.bin").open("wb") as file:
        file.truncate(65 << 20)
    answer = found("main.py", cwd=tmp_path)
    assert set(answer["files"]) == {"pkg/__init__.py", "pkg/small.bin", "pkg/z.py"}
    assert answer["left_out"] == [str(tmp_path / "pkg" / "large.bin")]

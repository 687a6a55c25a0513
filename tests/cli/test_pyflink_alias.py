from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
import types

import pytest

import beadline
from beadline import pyflink_alias
from beadline.errors import ConfigurationError, UnsupportedFeatureError


@pytest.fixture
def clean_imports(monkeypatch):
    """No ``pyflink`` in this process, and whatever the test imports forgotten at its end."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if type(f).__module__ != pyflink_alias.__name__])
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyflink"]:
        del sys.modules[name]
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def counters(tmp_path, monkeypatch):
    """A package ``beadline.metrics.counters`` that exists only for the test."""
    package = tmp_path / "counters"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Counter\n")
    (package / "inner.py").write_text("class Counter:\n    pass\n")
    (package / "unused.py").write_text("raise AssertionError('nobody should import this')\n")
    metrics = importlib.import_module("beadline.metrics")
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    yield
    if hasattr(metrics, "counters"):
        del metrics.counters


@pytest.fixture
def alias(clean_imports, counters):
    pyflink_alias.install()


@pytest.mark.usefixtures("alias")
class TestSameModules:
    def test_at_every_depth(self):
        pyflink = importlib.import_module("pyflink")
        inner = importlib.import_module("pyflink.metrics.counters.inner")

        assert pyflink is beadline
        assert inner is importlib.import_module("beadline.metrics.counters.inner")
        assert pyflink.metrics.counters.inner is inner

    def test_with_from_imports(self):
        from pyflink import metrics
        from pyflink.metrics.counters import Counter, inner

        assert metrics is beadline.metrics
        assert Counter is inner.Counter is sys.modules["beadline.metrics.counters"].Counter

    def test_keep_their_own_names(self):
        inner = importlib.import_module("pyflink.metrics.counters.inner")

        assert inner.__name__ == "beadline.metrics.counters.inner"
        assert inner.__spec__.name == "beadline.metrics.counters.inner"
        assert inner.__package__ == inner.__spec__.parent

    def test_pickles_name_beadline_only(self):
        from pyflink.metrics.counters import Counter

        pickled = pickle.dumps(Counter())

        assert b"beadline.metrics.counters.inner" in pickled
        assert b"pyflink" not in pickled

    def test_their_modules_run_once(self, tmp_path):
        (tmp_path / "counters" / "inner.py").write_text(
            "import sys\nsys.times_loaded = getattr(sys, 'times_loaded', 0) + 1\nclass Counter:\n    pass\n"
        )
        try:
            importlib.import_module("pyflink.metrics.counters.inner")
            importlib.import_module("beadline.metrics.counters.inner")
            assert sys.times_loaded == 1
        finally:
            del sys.times_loaded

    def test_can_be_looked_up_without_importing(self):
        assert importlib.util.find_spec("pyflink.metrics.counters.unused") is not None


@pytest.mark.usefixtures("alias")
class TestWhatBeadlineLacks:
    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (
                "from pyflink.table import Nonsense",
                "pyflink.table.Nonsense is not supported by Beadline: it runs DataS",
            ),
            ("import pyflink.table.expressions", "pyflink.table.expressions is not supported by Beadline: it runs Da"),
            ("from pyflink.table.udf import udf", "pyflink.table.udf is not supported by Beadline: it runs DataSt"),
            (
                "from pyflink.java_gateway import get_gateway",
                "pyflink.java_gateway is not supported by Beadline: it reaches into Flink's JVM",
            ),
            (
                "import pyflink.util.java_utils",
                "pyflink.util is not supported by Beadline: it reaches into Flink's JVM",
            ),
            (
                "from pyflink.datastream.connectors.pulsar import PulsarSource",
                "pyflink.datastream.connectors.pulsar is not supported by Beadline yet: this connector comes",
            ),
            (
                "from pyflink.datastream.connectors import RMQSource",
                "pyflink.datastream.connectors.RMQSource is not supported by Beadline yet: this connector",
            ),
            (
                "from pyflink.datastream.connectors import FileCompactor",
                "pyflink.datastream.connectors.FileCompactor is somewhere else: import it from pyflink.datastream.conn",
            ),
            ("import pyflink.nonsense", "pyflink.nonsense is not supported by Beadline: there is no beadline.nonsense"),
            ("import pyflink.metrics.nonsense", "pyflink.metrics.nonsense is not supported"),
            ("from pyflink.metrics import Nonsense", "pyflink.metrics.Nonsense is not supported"),
            ("import pyflink.cli", "pyflink.cli is not supported"),
        ],
    )
    def test_is_named(self, statement, message):
        with pytest.raises(UnsupportedFeatureError) as caught:
            exec(statement, {})

        assert str(caught.value).startswith(message)

    def test_can_be_caught_as_an_import_error(self):
        with pytest.raises(ImportError) as caught:
            importlib.import_module("pyflink.table.expressions")

        assert caught.value.name == "pyflink.table.expressions"

    def test_of_the_table_api_there_are_the_types(self):
        from pyflink.table import DataTypes
        from pyflink.table.types import RowType

        import beadline.table

        assert DataTypes is beadline.table.DataTypes
        assert DataTypes.TIMESTAMP(3).bridged_to("java.sql.Timestamp") == DataTypes.TIMESTAMP(3)
        assert isinstance(DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())]), RowType)

    @pytest.mark.parametrize(
        ("use", "what"),
        [
            ("StreamTableEnvironment.create(None)", "pyflink.table.StreamTableEnvironment.create"),
            ("EnvironmentSettings.in_streaming_mode()", "pyflink.table.EnvironmentSettings.in_streaming_mode"),
            ("Schema()", "pyflink.table.Schema()"),
            ("class Mine(ScalarFunction): pass", "pyflink.table.ScalarFunction as the base of Mine"),
        ],
    )
    def test_of_the_table_api_can_be_imported_and_not_used(self, use, what):
        names = "StreamTableEnvironment, EnvironmentSettings, Schema, ScalarFunction"
        program = f"from pyflink.table import {names}\ndef job(t: Schema): pass\n\n{use}\n"
        with pytest.raises(UnsupportedFeatureError) as caught:
            exec(compile(program, "orders.py", "exec"), {})
        text = str(caught.value)
        assert text.startswith(f"{what} is not supported by Beadline: it runs DataStream programs")
        assert text.endswith("(orders.py, line 4).")

    def test_of_the_table_api_can_be_mentioned_by_what_is_pickled(self):
        from pyflink.table import Schema

        assert b"pyflink" not in pickle.dumps(Schema)
        assert pickle.loads(pickle.dumps(Schema)) is Schema

    def test_leaves_nothing_behind(self):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("pyflink.metrics.nonsense")

        assert "pyflink.metrics.nonsense" not in sys.modules

    def test_other_missing_modules_are_left_to_python(self):
        with pytest.raises(ModuleNotFoundError, match="No module named 'pyflinks'"):
            importlib.import_module("pyflinks")
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'beadline\.nonsense'"):
            importlib.import_module("beadline.nonsense")


@pytest.mark.usefixtures("clean_imports")
class TestInstalling:
    def test_is_needed(self):
        assert not pyflink_alias.is_installed()
        pyflink_alias.install()
        assert pyflink_alias.is_installed()

    def test_twice_is_as_good_as_once(self):
        pyflink_alias.install()
        finders = list(sys.meta_path)
        importlib.import_module("pyflink")

        pyflink_alias.install()

        assert sys.meta_path == finders

    def test_too_late(self):
        real = types.ModuleType("pyflink")
        real.__file__ = "/somewhere/pyflink/__init__.py"
        sys.modules["pyflink"] = real

        with pytest.raises(ConfigurationError, match=r"imported from /somewhere/pyflink/__init__\.py before"):
            pyflink_alias.install()

        assert not pyflink_alias.is_installed()


def test_command_line_switch(beadline, write):
    write("job.py", "import pyflink, beadline; print(pyflink is beadline)")

    assert beadline("run", "--pyflink", "job.py").stdout == "True\n"


def test_without_the_switch_pyflink_is_not_touched(beadline, write):
    write("pyflink.py", "print('the one next to the script')")
    write("job.py", "import pyflink")

    assert beadline("run", "job.py").stdout == "the one next to the script\n"

"""Let ``import pyflink`` mean Beadline, for programs that are to run unmodified.

After :func:`install`, ``pyflink.datastream.functions`` *is* the module ``beadline.datastream.functions``: the same
object, so that classes are the same and pickles name ``beadline`` only. If Beadline lacks a part of PyFlink, importing
it raises an error that names it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from beadline.errors import ConfigurationError, UnsupportedFeatureError

_ALIAS = "pyflink"
_REAL = "beadline"

# The parts of Beadline that have PyFlink's names; the others are Beadline's own.
_SHARED = frozenset({"common", "datastream", "metrics", "table"})

# Why something is missing. The longest prefix counts.
_NO_JVM = "it reaches into Flink's JVM, and Beadline runs without it"
_REASONS = {
    "table": (
        "it runs DataStream programs and has no Table API and no SQL (of pyflink.table only the types are there, for "
        "file formats); write the program with pyflink.datastream"
    ),
    "fn_execution": "it holds the insides of Flink's Python workers, and here Spark's workers run the functions",
    "java_gateway": _NO_JVM,
    "util": _NO_JVM,
    "pyflink_gateway_server": _NO_JVM,
    "find_flink_home": "there is no installation of Flink to find",
    "serializers": "it holds the insides of PyFlink; use pickle",
    "shell": "there is no interactive shell; make a StreamExecutionEnvironment in any Python shell",
    "testing": "it holds Flink's own test tools; beadline.testing has some for programs",
}

# Parts of PyFlink that Beadline will have. PyFlink offers the main classes of a connector in two places.
_LATER = {
    "datastream.connectors": {
        "dynamic_kafka": (
            "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaRecordDeserializationSchema "
            "KafkaStreamSetSubscriber KafkaStreamSubscriber StreamPatternSubscriber SingleClusterTopicMetadataService"
        ),
        "elasticsearch": "ElasticsearchSink Elasticsearch6SinkBuilder Elasticsearch7SinkBuilder ElasticsearchEmitter",
        "pulsar": "PulsarSource PulsarSourceBuilder PulsarSink StartCursor StopCursor",
        "rabbitmq": "RMQSource RMQSink RMQConnectionConfig",
        "cassandra": "CassandraSink",
    },
}
_NOT_YET = {
    f"{package}.{name}"
    for package, parts in _LATER.items()
    for part, classes in parts.items()
    for name in (part, *classes.split())
}


class UnsupportedModuleError(UnsupportedFeatureError, ModuleNotFoundError):
    """An import from PyFlink that Beadline can't serve. It is an ``ImportError``, so a program may do without."""

    def __init__(self, name: str) -> None:
        ImportError.__init__(self, _sentence(name), name=name)


def install() -> None:
    """Make ``pyflink`` and everything below it mean Beadline, from now on and in this process.

    :raises ConfigurationError: if the real PyFlink has been imported already; its classes would be mixed with ours
    """
    present = sys.modules.get(_ALIAS)
    if present is not None and present is not sys.modules[_REAL]:
        where = getattr(present, "__file__", None) or "an unknown place"
        raise ConfigurationError(
            f"pyflink was imported from {where} before Beadline could take its name: "
            f"install the alias before the first import of pyflink."
        )
    if not is_installed():
        # In front, because the ordinary finder would load our files a second time under the other name.
        sys.meta_path.insert(0, _AliasFinder())


def uninstall() -> None:
    """Undo :func:`install`; modules imported under the alias keep working, new imports fail again."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _AliasFinder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == _ALIAS]:
        del sys.modules[name]


def is_installed() -> bool:
    """Whether ``pyflink`` means Beadline in this process."""
    return any(isinstance(finder, _AliasFinder) for finder in sys.meta_path)


class _AliasFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, below = fullname.partition(".")
        top = below.partition(".")[0]
        if root == _ALIAS:
            if below and (top not in _SHARED or self._ask_the_others(f"{_REAL}.{below}", path) is None):
                raise UnsupportedModuleError(fullname)
            return ModuleSpec(fullname, _AliasLoader())
        if root == _REAL and (top in _SHARED or top in _REASONS):
            # `from pyflink import table` asks for `beadline.table`, because that is what the module calls itself.
            # An error that carries this very name would be swallowed by the import system; the alias's is not.
            spec = self._ask_the_others(fullname, path)
            if spec is None:
                raise UnsupportedModuleError(f"{_ALIAS}.{below}")
            return spec
        return None

    def _ask_the_others(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path)) is not None:
                return spec
        return None


class _AliasLoader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what it finds in sys.modules afterwards, and leaves its attributes alone.
        name = module.__name__
        sys.modules[name] = importlib.import_module(_REAL + name.removeprefix(_ALIAS))


def reason_against(part: str) -> str:
    """Why a part of PyFlink is not here."""
    return _REASONS[part]


def _sentence(name: str) -> str:
    below = name.partition(".")[2]
    while below:
        if below in _NOT_YET:
            return f"{name} is not supported by Beadline yet: this connector comes in a later version."
        if below in _REASONS:
            return f"{name} is not supported by Beadline: {_REASONS[below]}."
        below = below.rpartition(".")[0]
    place = _elsewhere(name)
    if place is not None:
        return f"{name} is somewhere else: import it from {place}."
    return f"{name} is not supported by Beadline: there is no {_REAL}{name.removeprefix(_ALIAS)}."


def _elsewhere(name: str) -> str | None:
    """The module that has a name which a program looked for in another one."""
    wanted = name.rpartition(".")[2]
    for place, module in sorted(sys.modules.items()):
        root, _, below = place.partition(".")
        if root == _REAL and below.partition(".")[0] in _SHARED and wanted in getattr(module, "__all__", ()):
            return f"{_ALIAS}.{below}"
    return None

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from beadline.common._types.javatext import boolean_text, double_text
from beadline.common.config_options import ConfigOption
from beadline.common.option_texts import (
    format_list,
    format_map,
    parse_duration_ms,
    parse_list,
    parse_map,
    parse_memory_bytes,
)
from beadline.common.references import resolved
from beadline.common.without_java import WithoutJava
from beadline.errors import ConfigurationError

__all__ = ["Configuration"]

T = TypeVar("T")
V = TypeVar("V")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|NaN|Infinity)[dDfF]?", re.ASCII)

# The option keys that Flink has renamed; programs for older versions still use the first names.
_RENAMED: dict[str, tuple[str, ...]] = {
    "execution.buffer-timeout.interval": ("execution.buffer-timeout",),
    "execution.checkpointing.aligned-checkpoint-timeout": ("execution.checkpointing.alignment-timeout",),
    "execution.checkpointing.checkpoints-after-tasks-finish": (
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
    ),
    "execution.checkpointing.cleaner.parallel-mode": ("state.checkpoint.cleaner.parallel-mode",),
    "execution.checkpointing.create-subdir": ("state.checkpoints.create-subdir",),
    "execution.checkpointing.data-inline-threshold": (
        "state.storage.fs.memory-threshold",
        "state.backend.fs.memory-threshold",
    ),
    "execution.checkpointing.dir": ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
    "execution.checkpointing.incremental": ("state.backend.incremental",),
    "execution.checkpointing.local-backup.dirs": ("taskmanager.state.local.root-dirs",),
    "execution.checkpointing.local-backup.enabled": ("state.backend.local-recovery",),
    "execution.checkpointing.num-retained": ("state.checkpoints.num-retained",),
    "execution.checkpointing.savepoint-dir": ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
    "execution.checkpointing.storage": ("state.checkpoint-storage",),
    "execution.checkpointing.unaligned.enabled": ("execution.checkpointing.unaligned",),
    "execution.checkpointing.write-buffer-size": (
        "state.storage.fs.write-buffer-size",
        "state.backend.fs.write-buffer-size",
    ),
    "execution.state-recovery.approximate-local-recovery": ("execution.checkpointing.approximate-local-recovery",),
    "execution.state-recovery.claim-mode": ("execution.savepoint-restore-mode",),
    "execution.state-recovery.ignore-unclaimed-state": ("execution.savepoint.ignore-unclaimed-state",),
    "execution.state-recovery.path": ("execution.savepoint.path",),
    "execution.state-recovery.without-channel-state.checkpoint-id": (
        "execution.checkpointing.recover-without-channel-state.checkpoint-id",
    ),
    "pipeline.operator-chaining.enabled": ("pipeline.operator-chaining",),
    "restart-strategy.type": ("restart-strategy",),
    "state.backend.type": ("state.backend",),
    "state.changelog.enabled": ("state.backend.changelog.enabled",),
    "state.changelog.max-failures-allowed": ("state.backend.changelog.max-failures-allowed",),
    "state.changelog.periodic-materialize.enabled": ("state.backend.changelog.periodic-materialize.enabled",),
    "state.changelog.periodic-materialize.interval": ("state.backend.changelog.periodic-materialize.interval",),
    "state.changelog.storage": ("state.backend.changelog.storage",),
}

_CURRENT: dict[str, str] = {old: new for new, olds in _RENAMED.items() for old in olds}


def known_keys(key: str) -> tuple[str, ...]:
    """All names of the option that ``key`` names, today's first."""
    current = _CURRENT.get(key, key)
    return (current, *_RENAMED.get(current, ()))


class Configuration(WithoutJava):
    """Settings by key: ``Configuration().set_string("execution.checkpointing.dir", "file:///tmp/cp")``.

    A value is kept as it was set and read as what the getter asks for, so ``"5"`` set as a string is 5 for
    :meth:`get_integer`. A key that Flink has renamed finds the value under its other name too. ``${env:NAME}`` and
    ``${file:/path}`` in a value are looked up when it is read; as text, as in :meth:`to_dict`, they stay what they are.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        configuration = cls()
        for key, value in map.items():
            configuration._put(key, value)
        return configuration

    def get_string(self, key: str, default_value: T) -> str | T:
        return self._read(key, default_value, _text)

    def set_string(self, key: str, value: str) -> Configuration:
        return self._put(key, value)

    def get_integer(self, key: str, default_value: T) -> int | T:
        return self._read(key, default_value, _integer)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._put(key, value)

    def get_boolean(self, key: str, default_value: T) -> bool | T:
        return self._read(key, default_value, _boolean)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._put(key, value)

    def get_float(self, key: str, default_value: T) -> float | T:
        return self._read(key, default_value, _float)

    def set_float(self, key: str, value: float) -> Configuration:
        return self._put(key, float(value))

    def get_bytearray(self, key: str, default_value: T) -> bytearray | T:
        return self._read(key, default_value, _bytearray)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self._put(key, bytes(value))

    def get_duration_ms(self, key: str, default_value: T) -> int | T:
        """Milliseconds of a value such as ``10 s``."""
        return self._read(key, default_value, lambda value: parse_duration_ms(_text(value)))

    def get_memory_bytes(self, key: str, default_value: T) -> int | T:
        """Bytes of a value such as ``64mb``."""
        return self._read(key, default_value, lambda value: parse_memory_bytes(_text(value)))

    def get_map(self, key: str, default_value: T) -> dict[str, str] | T:
        """The entries of a value such as ``k:v,l:w`` or ``{k: v}``."""
        found = self._read(key, default_value, _map, whole=False)
        # What an entry refers to may have anything in it, so it is looked up after the entries are told apart.
        if not isinstance(found, dict):
            return found
        return {name: resolved(key, value) if isinstance(value, str) else value for name, value in found.items()}

    def set_map(self, key: str, value: Mapping[str, str]) -> Configuration:
        return self._put(key, dict(value))

    def get(self, option: ConfigOption[T]) -> T | None:
        """The value of an option, or its default."""
        parse: Callable[[Any], Any] = _BY_TYPE[option.value_type]
        value = self._read(option.key, None, parse)
        if value is None:
            return option.default
        if option.value_type is int and not -(1 << option.bits - 1) <= value < 1 << option.bits - 1:
            raise ConfigurationError(f"The option {option.key} takes an int of {option.bits} bits, got {value}.")
        found: T = value
        return found

    def set(self, option: ConfigOption[T], value: T) -> Configuration:
        return self._put(option.key, value)

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """The elements of ``[a, b]`` or ``a;b``."""
        return parse_list(value) if value else []

    def key_set(self) -> AbstractSet[str]:
        """The keys that were set, by the names they were set with."""
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all settings, as they were set, into ``target_dict``."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all settings of ``other``, with ``prefix`` put before their keys."""
        for key, value in other._values.items():
            self._put(f"{prefix or ''}{key}", value)
        return self

    def contains_key(self, key: str) -> bool:
        return any(name in self._values for name in known_keys(key))

    def to_dict(self) -> dict[str, str]:
        """All settings as text."""
        return {key: _text(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """Forget the setting; says whether there was one."""
        removed = [self._values.pop(name, None) is not None for name in known_keys(key)]
        return any(removed)

    def _put(self, key: str, value: Any) -> Configuration:
        if not isinstance(key, str):
            raise ConfigurationError(f"A key must be a str, got {key!r} of type {type(key).__name__}.")
        if value is None:
            raise ConfigurationError(f"The option {key} can't be set to None; use remove_config to unset it.")
        # The name used last counts: an earlier value under the other name must not hide it.
        for name in known_keys(key):
            if name != key:
                self._values.pop(name, None)
        self._values[key] = value
        return self

    def _read(self, key: str, default: T, parse: Callable[[Any], V], whole: bool = True) -> V | T:
        for name in known_keys(key) if key not in self._values else (key,):
            if name in self._values:
                value = self._values[name]
                try:
                    return parse(resolved(name, value) if whole and isinstance(value, str) else value)
                except ValueError as error:
                    raise ConfigurationError(f"The option {name} has the value {_text(value)!r}: {error}") from None
        return default

    def __deepcopy__(self, memodict: dict[int, Any] | None = None) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in self.to_dict().items())}}}"

    def __repr__(self) -> str:
        return f"Configuration({self})"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return boolean_text(value)
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, bytes):
        return f"!!binary |-\n  {base64.b64encode(value).decode()}"
    if isinstance(value, dict):
        return format_map(value)
    if isinstance(value, list):
        return format_list(value)
    return str(value)


def _integer(value: Any) -> int:
    text = _text(value)
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError("a whole number of 64 bits is needed.")
    return int(text)


def _boolean(value: Any) -> bool:
    text = _text(value).lower()
    if text not in ("true", "false"):
        raise ValueError("true or false is needed.")
    return text == "true"


def _float(value: Any) -> float:
    text = _text(value).strip()
    if not _FLOAT.fullmatch(text):
        raise ValueError("a number is needed.")
    return float(text.rstrip("dDfF") if not text.endswith("Infinity") else text)


def _bytearray(value: Any) -> bytearray:
    if not isinstance(value, bytes):
        raise ValueError("a value set by set_bytearray is needed.")
    return bytearray(value)


def _map(value: Any) -> dict[str, str]:
    return dict(value) if isinstance(value, dict) else parse_map(_text(value))


_BY_TYPE: dict[type, Callable[[Any], Any]] = {bool: _boolean, int: _integer, float: _float, str: _text}

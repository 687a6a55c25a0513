from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class ConfigOption(Generic[T]):
    """A key of a :class:`~beadline.common.configuration.Configuration`, the type of its values and its default.

    :ivar value_type: ``bool``, ``int``, ``float`` or ``str``
    :ivar default: the value if the key is not set; None if there is no default
    """

    key: str
    value_type: type
    default: T | None = None
    bits: int = 64

    def __repr__(self) -> str:
        return f"ConfigOption({self.key!r}, {self.value_type.__name__}, default={self.default!r})"


class ConfigOptions:
    """Builds options: ``ConfigOptions.key("my.limit").int_type().default_value(100)``."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Has the key, and waits for the type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Whole numbers of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int, bits=32)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Whole numbers of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, int)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, str)

    class TypedConfigOptionBuilder(Generic[T]):
        """Has key and type, and waits for the default."""

        def __init__(self, key: str, value_type: type, bits: int = 64) -> None:
            self._key = key
            self._value_type = value_type
            self._bits = bits

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self._key, self._value_type, value, self._bits)

        def no_default_value(self) -> ConfigOption[T]:
            return ConfigOption(self._key, self._value_type, None, self._bits)

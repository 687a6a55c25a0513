"""Types of records, fields and state: ``Types.TUPLE([Types.STRING(), Types.LONG()])``."""

from __future__ import annotations

from beadline.common._types.base import ExternalTypeInfo, PickledBytesTypeInfo, TypeInformation
from beadline.common._types.basic import BasicType, BasicTypeInfo, InstantTypeInfo
from beadline.common._types.classes import ClassTypeInfo
from beadline.common._types.collections import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from beadline.common._types.composite import RowTypeInfo, TupleTypeInfo
from beadline.common._types.temporal import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "ClassTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class Types:
    """All the types a program can declare.

    Unless it says otherwise, None is not a value of the type. Inside a row, an object array, a list, and as the
    value of a map, None is always allowed.
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """``str``."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation:
        """``int`` of 8 bits: -128 to 127."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """``bool``."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation:
        """``int`` of 16 bits."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation:
        """``int`` of 32 bits."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation:
        """``int`` of 64 bits."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation:
        """``float``, rounded to 32 bits."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """``float``; an ``int`` becomes one."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation:
        """``str`` of one character."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """``int`` of any size."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """``decimal.Decimal``."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> TypeInformation:
        """:class:`~beadline.common.time.Instant`, or None."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """``datetime.date``."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """``datetime.time`` without time zone, to the millisecond."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """``datetime.datetime`` without time zone, to the millisecond."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object, None too. What a stream has if no type is declared."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:
        """:class:`~beadline.common.types.Row` with fields named ``f0``, ``f1``, …"""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> RowTypeInfo:
        """:class:`~beadline.common.types.Row` with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:
        """``tuple`` with one type for each field."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """``list`` of numbers, booleans or characters without None; of BYTE, it is a ``bytes``."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """``list`` of numbers, booleans, characters or strings."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """``list`` of any type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """``dict`` with one type for the keys and one for the values."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """``list`` with one type for all elements."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def CLASS(cls: type) -> ClassTypeInfo:
        """A dataclass or named tuple, with the fields and types that it declares.

        ``int`` is a LONG, ``float`` a DOUBLE, ``Optional[T]`` a T (each field may be None). ``list[T]``,
        ``dict[K, V]``, ``tuple[A, B]``, dates and times, ``Decimal``, ``bytes`` and other such classes keep their
        types; whatever else an annotation says is any Python object. State of this type outlives changes of the class.
        """
        return ClassTypeInfo.of(cls)

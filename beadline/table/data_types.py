"""The classes of data types; :class:`~beadline.table.types.DataTypes` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beadline.common._types.temporal import LocalTimeTypeInfo
from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import ConfigurationError, TypeMismatchError

LONGEST = 0x7FFFFFFF


class DataType:
    """The type of a field. Two are equal if they have the same class and parameters."""

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable

    def not_null(self) -> DataType:
        """The same type without null."""
        return self._with_nullable(False)

    def nullable(self) -> DataType:
        """The same type with null."""
        return self._with_nullable(True)

    def bridged_to(self, conversion_cls: str) -> DataType:
        """The same type: the class of Java that PyFlink's JVM would hold values in has no meaning here."""
        if not isinstance(conversion_cls, str):
            raise TypeMismatchError(f"bridged_to() takes the name of a class, got {conversion_cls!r}")
        return self

    def _with_nullable(self, nullable: bool) -> DataType:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _nullable=nullable)
        return other

    def type_info(self) -> TypeInformation:
        """The type of a stream of such values."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a stream of its values is")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        values = self.__dict__.values()
        parameters = [str(value).lower() if isinstance(value, bool) else repr(value) for value in values]
        return f"{type(self).__name__}({', '.join([*parameters[1:], parameters[0]])})"


class AtomicType(DataType):
    """A type without parts."""


class NumericType(AtomicType):
    """A number."""


class TinyIntType(NumericType):
    """-128 to 127."""

    def type_info(self) -> TypeInformation:
        return Types.BYTE()


class SmallIntType(NumericType):
    """16 bits."""

    def type_info(self) -> TypeInformation:
        return Types.SHORT()


class IntType(NumericType):
    """32 bits."""

    def type_info(self) -> TypeInformation:
        return Types.INT()


class BigIntType(NumericType):
    """64 bits."""

    def type_info(self) -> TypeInformation:
        return Types.LONG()


class FloatType(NumericType):
    """A floating point number of 32 bits."""

    def type_info(self) -> TypeInformation:
        return Types.FLOAT()


class DoubleType(NumericType):
    """A floating point number of 64 bits."""

    def type_info(self) -> TypeInformation:
        return Types.DOUBLE()


class DecimalType(NumericType):
    """A decimal number: ``precision`` digits, ``scale`` of them after the point."""

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ConfigurationError(
                f"DataTypes.DECIMAL takes a precision of 1 to 38 and a scale of 0 to the precision, got ({precision}, "
                f"{scale})"
            )
        super().__init__(nullable)
        self.precision = precision
        self.scale = scale

    def type_info(self) -> TypeInformation:
        return Types.BIG_DEC()


class BooleanType(AtomicType):
    """True or False."""

    def type_info(self) -> TypeInformation:
        return Types.BOOLEAN()


class _LengthType(AtomicType):
    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        if length < 1:
            raise ConfigurationError(f"{type(self).__name__} needs a length of at least 1, got {length}")
        super().__init__(nullable)
        self.length = length


class CharType(_LengthType):
    """Text of a fixed length."""

    def type_info(self) -> TypeInformation:
        return Types.STRING()


class VarCharType(_LengthType):
    """Text up to a length; ``DataTypes.STRING()`` is one without a limit."""

    def type_info(self) -> TypeInformation:
        return Types.STRING()


class BinaryType(_LengthType):
    """Bytes of a fixed length."""

    def type_info(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class VarBinaryType(_LengthType):
    """Bytes up to a length; ``DataTypes.BYTES()`` is one without a limit."""

    def type_info(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class DateType(AtomicType):
    """A ``datetime.date``."""

    def type_info(self) -> TypeInformation:
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE)


class _PrecisionType(AtomicType):
    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        if not 0 <= precision <= 9:
            raise ConfigurationError(f"{type(self).__name__} takes 0 to 9 digits of a second, got {precision}")
        super().__init__(nullable)
        self.precision = precision


class TimeType(_PrecisionType):
    """A ``datetime.time``."""

    def type_info(self) -> TypeInformation:
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME)


class TimestampType(_PrecisionType):
    """A ``datetime.datetime`` without time zone. Python's have six digits of a second."""

    def type_info(self) -> TypeInformation:
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)


class LocalZonedTimestampType(_PrecisionType):
    """A point in time: an :class:`~beadline.common.time.Instant`."""

    def type_info(self) -> TypeInformation:
        return Types.INSTANT()


class ArrayType(DataType):
    """A list."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = _checked(element_type, "DataTypes.ARRAY")

    def type_info(self) -> TypeInformation:
        return Types.OBJECT_ARRAY(self.element_type.type_info())


class MapType(DataType):
    """A dictionary."""

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = _checked(key_type, "DataTypes.MAP")
        self.value_type = _checked(value_type, "DataTypes.MAP")

    def type_info(self) -> TypeInformation:
        return Types.MAP(self.key_type.type_info(), self.value_type.type_info())


class RowField:
    """A field of a row: its name and type."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeMismatchError(f"DataTypes.FIELD takes the name as str, got {name!r}")
        self.name = name
        self.data_type = _checked(data_type, f"DataTypes.FIELD({name!r}, …)")
        self.description = description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r})"


class RowType(DataType):
    """A row with named fields: ``DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), …])``."""

    def __init__(self, fields: Sequence[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields: list[RowField] = []
        for field in fields or ():
            self._append(field)

    def _append(self, field: object) -> None:
        if not isinstance(field, RowField):
            raise TypeMismatchError(f"DataTypes.ROW takes fields made with DataTypes.FIELD(name, type), got {field!r}")
        if field.name in self.names:
            raise ConfigurationError(f"DataTypes.ROW has two fields called {field.name!r}")
        self.fields.append(field)

    def add(self, field: RowField | str, data_type: DataType | None = None) -> RowType:
        """Add a field."""
        if isinstance(field, str):
            field = RowField(field, _checked(data_type, f"RowType.add({field!r}, …)"))
        self._append(field)
        return self

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def field_names(self) -> list[str]:
        return self.names

    def field_types(self) -> list[DataType]:
        return [field.data_type for field in self.fields]

    def type_info(self) -> TypeInformation:
        return Types.ROW_NAMED(self.names, [field.data_type.type_info() for field in self.fields])

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: int | str) -> RowField:
        if isinstance(key, int):
            return self.fields[key]
        for field in self.fields:
            if field.name == key:
                return field
        raise KeyError(f"No RowField named {key!r}; there are {self.names}")

    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self.fields))})"


def _checked(candidate: object, owner: str) -> DataType:
    if not isinstance(candidate, DataType):
        hint = "call it: DataTypes.STRING(), not DataTypes.STRING" if callable(candidate) else "use DataTypes"
        raise TypeMismatchError(f"{owner} takes a DataType, got {candidate!r}; {hint}")
    return candidate

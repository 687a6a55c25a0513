"""Is a pickle data, or a program?

A pickle is a program for a small machine, and Python's unpickler runs what it is given: it also sets attributes of
classes and functions, makes room for a thousand million values, or builds what can't be hashed without overflowing the
C stack. :func:`check` follows the program without running it. It knows of each value what made it, and lets pass what a
pickler writes for data:

- constants, lists, tuples, dictionaries and sets
- what a fixed list of plain classes is made of: for each, the arguments are looked at
- instances of other classes, made and filled as pickle does by default. Whether such a class may be loaded at all is
  for the unpickler to decide; here it is only a name

A pickle that passes can be loaded by the quick unpickler. What :mod:`~beadline.state.codec` froze inside of it passes
as well.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from beadline.errors import SerializationError

Name = tuple[str, str]

_DEEPEST = 5000  # no pickler of Python goes deeper
_LARGEST = 1 << 28  # with all that is shared counted each time
_MOST_ALIKE = 1000  # large numbers with one hash
_MODULUS = (1 << 61) - 1  # of the hash of a number
_LONGEST_EXPONENT = 100_000
_MOST_FROZEN = 8
_HIGHEST_PROTOCOL = 5
_FLOAT = struct.Struct(">d")
_INT = struct.Struct("<i")

FROZEN: Name = ("beadline.state.codec", "Frozen")
_NAMED, _ARRAYS, _WINDOWS = "beadline.state.named", "beadline.state.arrays", "beadline.api.windows.window"
_ZONE: Name = ("zoneinfo", "ZoneInfo")


class _Bad(Exception):
    """The pickle does what no pickle of data does; the message says what."""


class _Value:
    """What the machine would have made, apart from constants.

    :ivar kind: of the kinds below
    :ivar items: what it holds, or was made of; keys and values of a dictionary one after the other
    :ivar name: of a class or function; of an instance, that of its class
    """

    __slots__ = ("items", "kind", "name")

    def __init__(self, kind: str, items: list[Any], name: Name = ("", "")) -> None:
        self.kind = kind
        self.items = items
        self.name = name


_TUPLE, _LIST, _DICT, _SET, _FROZENSET = "a tuple", "a list", "a dictionary", "a set", "a frozenset"
_GLOBAL = "a class or function"
_PLAIN = "plain data"  # finished: nothing is added
_FILLABLE = "a collection"
_UNFILLED = "an instance without its fields"
_INSTANCE = "an instance"


@dataclass
class Findings:
    """What the unpickler is going to be asked for.

    :ivar names: all classes and functions
    :ivar called: classes that are called, other than plain ones
    :ivar made: classes whose instances are made by ``__new__``
    :ivar made_of: those whose instances are made of arguments
    :ivar filled: classes whose instances get more after they were made
    """

    names: set[Name] = field(default_factory=set)
    called: set[Name] = field(default_factory=set)
    made: set[Name] = field(default_factory=set)
    made_of: set[Name] = field(default_factory=set)
    filled: set[Name] = field(default_factory=set)


def check(data: bytes | memoryview) -> Findings:
    """Look at a pickle without loading it.

    :raises SerializationError: it is not the pickle of data
    """
    findings = Findings()
    _check(bytes(data), findings, 0)
    return findings


def _check(data: bytes, findings: Findings, depth: int) -> None:
    try:
        if depth > _MOST_FROZEN:
            raise _Bad("it holds pickles within pickles")
        _Machine(data, findings, depth).run()
    except _Bad as bad:
        raise _refusal(data, bad) from None
    except UnicodeDecodeError as error:
        raise _refusal(data, "a text in it is not UTF-8") from error
    except (IndexError, ValueError, struct.error) as error:
        raise _refusal(data, "it is cut short") from error


def _refusal(data: bytes, why: object) -> SerializationError:
    return SerializationError(
        f"a pickle of {len(data)} bytes is refused: {why}. State and output are data: nothing that Beadline writes is "
        "like this, so the file is damaged, or somebody has made it by hand. Use another checkpoint or savepoint"
    )


class _Machine:
    """Follows one pickle.

    :ivar unfilled: instances that still need their fields
    """

    def __init__(self, data: bytes, findings: Findings, depth: int) -> None:
        self._data = data
        self._findings = findings
        self._depth = depth
        self._alike: dict[int, set[int]] = {}
        self._unfilled = 0
        self._is_shared = False

    def run(self) -> None:
        if len(self._data) < 2 or self._data[0] != 0x80 or not 4 <= self._data[1] <= _HIGHEST_PROTOCOL:
            raise _Bad("it does not begin as a pickle of protocol 4 or 5")
        result = self._follow()
        if self._unfilled:
            raise _Bad("an instance in it never gets its fields")
        # Each level takes a byte, and what grows beyond its bytes is there several times.
        if result.__class__ is _Value and (self._is_shared or len(self._data) > _DEEPEST):
            _measure(result)

    def _follow(self) -> Any:
        """Runs once per opcode, so that it is one loop, the frequent ones first."""
        data, size = self._data, len(self._data)
        at = 2
        stack: list[Any] = []
        marks: list[int] = []
        memo: list[Any] = []
        push, remember = stack.append, memo.append
        while True:
            op = data[at]
            at += 1
            if op == 0x94:  # MEMOIZE
                remember(stack[-1])
            elif op == 0x4B:  # BININT1
                push(data[at])
                at += 1
            elif op == 0x8C:  # SHORT_BINUNICODE
                end = at + 1 + data[at]
                if end > size:
                    raise IndexError
                push(str(data[at + 1 : end], "utf-8", "surrogatepass"))
                at = end
            elif op == 0x4A:  # BININT
                push(_INT.unpack_from(data, at)[0])
                at += 4
            elif op == 0x4D:  # BININT2
                push(data[at] | data[at + 1] << 8)
                at += 2
            elif op == 0x68:  # BINGET
                item = memo[data[at]]
                at += 1
                push(item)
                if item.__class__ is _Value and item.kind is not _GLOBAL:
                    self._is_shared = True
            elif op == 0x6A:  # LONG_BINGET
                item = memo[int.from_bytes(data[at : at + 4], "little")]
                at += 4
                push(item)
                if item.__class__ is _Value and item.kind is not _GLOBAL:
                    self._is_shared = True
            elif 0x85 <= op <= 0x87:  # TUPLE1 to TUPLE3
                count = op - 0x84
                if len(stack) - (marks[-1] if marks else 0) < count:
                    raise IndexError
                stack[-count:] = [_Value(_TUPLE, stack[-count:])]
            elif op == 0x28:  # MARK
                marks.append(len(stack))
            elif op == 0x4E:  # NONE
                push(None)
            elif op == 0x47:  # BINFLOAT
                push(_FLOAT.unpack_from(data, at)[0])
                at += 8
            elif op == 0x88:  # NEWTRUE
                push(True)
            elif op == 0x89:  # NEWFALSE
                push(False)
            elif op == 0x5D:  # EMPTY_LIST
                push(_Value(_LIST, []))
            elif op == 0x7D:  # EMPTY_DICT
                push(_Value(_DICT, []))
            elif op == 0x29:  # EMPTY_TUPLE
                push(_Value(_TUPLE, []))
            elif op == 0x8F:  # EMPTY_SET
                push(_Value(_SET, []))
            elif op == 0x61:  # APPEND
                item = stack.pop()
                self._add(stack[-1], _LIST, [item])
            elif op == 0x73:  # SETITEM
                value, key = stack.pop(), stack.pop()
                self._add(stack[-1], _DICT, [key, value])
            elif op in (0x65, 0x75, 0x90, 0x74, 0x91):  # APPENDS, SETITEMS, ADDITEMS, TUPLE, FROZENSET
                mark = marks.pop()
                items = stack[mark:]
                del stack[mark:]
                if op == 0x74:
                    push(_Value(_TUPLE, items))
                elif op == 0x91:
                    push(_Value(_FROZENSET, items))
                else:
                    if op == 0x75 and len(items) % 2:
                        raise _Bad("a key in it has no value")
                    self._add(stack[-1], _LIST if op == 0x65 else _DICT if op == 0x75 else _SET, items)
            elif op == 0x43:  # SHORT_BINBYTES
                end = at + 1 + data[at]
                if end > size:
                    raise IndexError
                push(data[at + 1 : end])
                at = end
            elif op in _LENGTHS:  # BINUNICODE, BINBYTES, BINUNICODE8, BINBYTES8, BYTEARRAY8, LONG1, LONG4
                width = _LENGTHS[op]
                start = at + width
                end = start + int.from_bytes(data[at:start], "little")
                if end > size:
                    raise IndexError
                at = end
                if op in (0x58, 0x8D):
                    push(str(data[start:end], "utf-8", "surrogatepass"))
                elif op == 0x96:
                    push(bytearray(data[start:end]))
                elif op in (0x8A, 0x8B):
                    push(self._number(data[start:end]))
                else:
                    push(data[start:end])
            elif op in (0x93, 0x63):  # STACK_GLOBAL, GLOBAL
                if op == 0x63:
                    middle = data.index(b"\n", at)
                    end = data.index(b"\n", middle + 1)
                    push(str(data[at:middle], "utf-8"))
                    push(str(data[middle + 1 : end], "utf-8"))
                    at = end + 1
                name, module = stack.pop(), stack.pop()
                if name.__class__ is not str or module.__class__ is not str:
                    raise _Bad("the name of a class is no text")
                self._findings.names.add((module, name))
                push(_Value(_GLOBAL, [], (module, name)))
            elif op == 0x52:  # REDUCE
                arguments, function = stack.pop(), stack.pop()
                push(self._called(function, arguments))
            elif op == 0x81:  # NEWOBJ
                arguments, cls = stack.pop(), stack.pop()
                push(self._made(cls, arguments, None))
            elif op == 0x92:  # NEWOBJ_EX
                named, arguments, cls = stack.pop(), stack.pop(), stack.pop()
                push(self._made(cls, arguments, named))
            elif op == 0x62:  # BUILD
                state = stack.pop()
                self._fill(stack[-1], state)
            elif op == 0x95:  # FRAME
                at += 8
                if at + int.from_bytes(data[at - 8 : at], "little") > size:
                    raise IndexError
            elif op == 0x30:  # POP
                if marks and marks[-1] == len(stack):
                    marks.pop()
                else:
                    stack.pop()
            elif op == 0x31:  # POP_MARK
                del stack[marks.pop() :]
            elif op == 0x2E:  # STOP
                if len(stack) != 1 or marks or at != size:
                    raise _Bad("it does not end where its value is complete")
                return stack[0]
            else:
                raise _Bad(f"it has the opcode {bytes([op])!r}")
            if marks and len(stack) < marks[-1]:
                raise _Bad("it takes more from a place than was put there")

    def _number(self, data: bytes) -> int:
        number = int.from_bytes(data, "little", signed=True)
        if not -_MODULUS < number < _MODULUS:
            alike = self._alike.setdefault(hash(number), set())
            alike.add(number)
            if len(alike) > _MOST_ALIKE:
                raise _Bad(f"more than {_MOST_ALIKE} numbers in it were chosen to have the same hash")
        return number

    # -- calls

    def _called(self, function: Any, arguments: Any) -> _Value:
        if function.__class__ is not _Value or function.kind is not _GLOBAL:
            raise _Bad("it calls something that is neither a class nor a function")
        if arguments.__class__ is not _Value or arguments.kind is not _TUPLE:
            raise _Bad("the arguments of a call in it are no tuple")
        name, items = function.name, arguments.items
        rule = CALLS.get(name)
        if rule is None:
            if name in PLAIN:
                raise _Bad(f"it calls {'.'.join(name)}, which no data is made by")
            self._findings.called.add(name)
            return _Value(_INSTANCE, items, name)
        if name == (_NAMED, "fill"):
            return self._fill_fields(items)
        try:
            fits = rule(items)
        except (ValueError, TypeError, OverflowError, ArithmeticError, InvalidOperation):
            fits = False
        if not fits:
            raise _Bad(f"it calls {'.'.join(name)} with arguments that no value has")
        if name == (_NAMED, "blank"):
            self._unfilled += 1
            return _Value(_UNFILLED, [], name)
        if name == ("builtins", "getattr"):
            return _Value(_GLOBAL, [], _UNPICKLE_ZONE)
        if name in _NUMPY_DRAFTS:
            self._unfilled += 1
            return _Value(_UNFILLED, items, name)
        return _Value(_COLLECTIONS.get(name, _PLAIN), items, name)

    def _fill_fields(self, arguments: list[Any]) -> _Value:
        """A dataclass gets its fields: ``fill(instance, (names, values, more))``."""
        match arguments:
            case [_Value(kind=kind) as instance, _Value(kind=state_kind, items=state)] if (
                kind is _UNFILLED and instance.name == (_NAMED, "blank") and state_kind is _TUPLE
            ):
                if _is_fields(state[:2]) and (len(state) == 2 or (len(state) == 3 and _is(state[2], _DICT))):
                    self._unfilled -= 1
                    instance.kind = _PLAIN
                    instance.items = state[1:]
                    return _Value(_PLAIN, [])
        raise _Bad("it gives fields to what is no new instance of a dataclass")

    def _made(self, cls: Any, arguments: Any, named: Any) -> _Value:
        """An instance as pickle makes it by default: ``cls.__new__(cls, *arguments)``."""
        if cls.__class__ is not _Value or cls.kind is not _GLOBAL:
            raise _Bad("it makes an instance of something that is no class")
        if not _is(arguments, _TUPLE) or not (named is None or _is(named, _DICT)):
            raise _Bad("the arguments of an instance in it are no tuple")
        name, items = cls.name, arguments.items
        if name == FROZEN:
            if named is not None or len(items) != 1 or items[0].__class__ is not bytes:
                raise _Bad("it holds a frozen value that is not made of bytes")
            _check(items[0], self._findings, self._depth + 1)
            return _FROZEN_VALUE
        if name in FIELDS:
            if items or named is not None:
                raise _Bad(f"it makes a {name[1]} of arguments")
            if FIELDS[name]:
                self._unfilled += 1
                return _Value(_UNFILLED, [], name)
            return _Value(_PLAIN, [], name)
        if name in PLAIN:
            raise _Bad(f"it makes a {'.'.join(name)} as no pickle of data does")
        self._findings.made.add(name)
        if items or named is not None:
            self._findings.made_of.add(name)
        return _Value(_INSTANCE, [*items, *(() if named is None else named.items)], name)

    # -- what is added to a value

    def _add(self, target: Any, kind: str, items: list[Any]) -> None:
        """APPEND, SETITEM and the like."""
        if target.__class__ is _Value:
            if target.kind is _INSTANCE:
                self._findings.filled.add(target.name)
                target.items = [*target.items, *items]
                return
            if target.kind is kind or target.kind is _FILLABLE:
                target.items += items
                return
        raise _Bad(f"it adds to something that is neither {kind} nor an instance")

    def _fill(self, value: Any, state: Any) -> None:
        """BUILD: ``value.__setstate__(state)``, or attributes."""
        kind = value.kind if value.__class__ is _Value else ""
        if kind is _INSTANCE or (kind is _FILLABLE and _is(state, _DICT)):
            _check_attributes(state)
            self._findings.filled.add(value.name)
            value.items = [*value.items, state]
        elif kind is _UNFILLED and value.name in FIELDS:
            _check_fields(value.name, state)
            self._unfilled -= 1
            value.kind = _PLAIN
        elif kind is _UNFILLED and value.name in _NUMPY_DRAFTS:
            self._unfilled -= 1
            value.kind = _PLAIN
            value.items = [*value.items, state]
        else:
            raise _Bad("it sets the attributes of something that is no new instance")


_FROZEN_VALUE = _Value(_PLAIN, [], FROZEN)
_LENGTHS = {0x58: 4, 0x42: 4, 0x8D: 8, 0x8E: 8, 0x96: 8, 0x8A: 1, 0x8B: 4}


def _is(value: Any, kind: str) -> bool:
    return value.__class__ is _Value and value.kind is kind


def _check_attributes(state: Any) -> None:
    """Slots are set as attributes, so that ``__class__`` among them would make another instance of it. They are in the
    second element of a tuple, which may be a named one."""
    if state.__class__ is not _Value or state.kind is _DICT:
        return
    for part in state.items:
        if _is(part, _TUPLE):  # the elements of a named tuple
            _check_attributes(part)
        elif part.__class__ is _Value and any(item == "__class__" for item in part.items if item.__class__ is str):
            raise _Bad("it sets the class of an instance")


def _check_fields(name: Name, state: Any) -> None:
    """The fields of a plain class: all of them, and each a whole number."""
    fields = state.items[1] if _is(state, _TUPLE) and len(state.items) == 2 and state.items[0] is None else state
    known = FIELDS[name]
    if _is(fields, _DICT) and known is not None:
        names, lowest, highest = known
        given = dict(zip(map(_text, fields.items[::2]), fields.items[1::2], strict=True))
        if name == _UUID and given.pop("is_safe", 0) not in (0, -1):
            given.clear()
        if given.keys() == names and all(
            value.__class__ is int and lowest <= value <= highest for value in given.values()
        ):
            return
    raise _Bad(f"it gives a {name[1]} fields that none has")


def _text(value: Any) -> str:
    if value.__class__ is not str:
        raise _Bad("the name of a field in it is no text")
    return str(value)


# -- how large and how deep


def _measure(root: _Value) -> None:
    """Refuse what could be loaded, but not be hashed, shown or copied: it is nested too deep, or it holds the same
    things over and over, so that going through it never ends."""
    weights: dict[int, tuple[int, int]] = {}
    under_way: set[int] = set()
    todo: list[tuple[_Value, bool]] = [(root, False)]
    while todo:
        value, done = todo.pop()
        place = id(value)
        if done:
            weight, depth = 1 + len(value.items), 0
            for item in value.items:
                if item.__class__ is _Value:
                    found = weights.get(id(item), (0, 0))  # none yet: a circle
                    weight += found[0]
                    depth = max(depth, found[1])
            if depth >= _DEEPEST:
                raise _Bad(f"it is nested more than {_DEEPEST} times")
            if weight > _LARGEST:
                raise _Bad("what it holds several times, it holds more often than anybody can look at")
            weights[place] = weight, depth + 1
        elif place not in weights and place not in under_way:
            under_way.add(place)
            todo.append((value, True))
            todo += [(item, False) for item in value.items if item.__class__ is _Value]


# -- what plain data is made by

Rule = Callable[[list[Any]], bool]


def _all(*kinds: type) -> Rule:
    """Constants of these classes."""
    return lambda items: [item.__class__ for item in items] == list(kinds)


def _moment(items: list[Any]) -> bool:
    year, month, day, hour, minute, second, micros = _numbers(items[0], 10)
    dt.datetime(year, month & 0x7F, day, hour, minute, second, micros)
    return _with_zone(items)


def _time(items: list[Any]) -> bool:
    hour, minute, second, micros = _numbers(b"\x07\xd0\x01\x01" + items[0], 10)[3:]
    dt.time(hour & 0x7F, minute, second, micros)
    return _with_zone(items)


def _date(items: list[Any]) -> bool:
    dt.date(*_numbers(items[0] + b"\0" * 6, 10)[:3])
    return len(items) == 1


def _numbers(data: Any, length: int) -> tuple[int, ...]:
    if data.__class__ is not bytes or len(data) != length:
        raise ValueError
    return data[0] << 8 | data[1], *data[2:7], data[7] << 16 | data[8] << 8 | data[9]


def _with_zone(items: list[Any]) -> bool:
    return len(items) == 1 or (len(items) == 2 and (items[1] is None or _is_object(items[1])))


def _is_object(value: Any) -> bool:
    return value.__class__ is _Value and value.kind in (_PLAIN, _INSTANCE)


def _length_of_time(items: list[Any]) -> bool:
    dt.timedelta(*items)
    return _all(int, int, int)(items)


def _zone_with_offset(items: list[Any]) -> bool:
    fits = 1 <= len(items) <= 2 and _is_object(items[0]) and items[0].name == ("datetime", "timedelta")
    if fits:
        dt.timezone(dt.timedelta(*items[0].items))
    return fits and (len(items) == 1 or items[1].__class__ is str)


def _named_zone(items: list[Any]) -> bool:
    return len(items) == 2 and items[0].__class__ is str and items[1].__class__ in (bool, int)


def _decimal(items: list[Any]) -> bool:
    if not _all(str)(items):
        return False
    made = Decimal(items[0])
    return not made.is_finite() or abs(made.adjusted()) <= _LONGEST_EXPONENT


def _fraction(items: list[Any]) -> bool:
    if not _all(str)(items) and not _all(int, int)(items):
        return False
    text = items[0] if items[0].__class__ is str else ""
    if "e" in text.lower():
        return False
    Fraction(*items)
    return True


def _class_value(value: Any) -> bool:
    return value is None or _is(value, _GLOBAL)


def _deque(items: list[Any]) -> bool:
    if not items:
        return True
    first = _is(items[0], _TUPLE) or _is(items[0], _LIST)
    return first and (len(items) == 1 or (len(items) == 2 and (items[1] is None or _is_count(items[1]))))


def _is_count(value: Any) -> bool:
    return value.__class__ is int and value >= 0


def _array(items: list[Any]) -> bool:
    match items:
        case [_Value(kind=kind, name=("array", "array")), str(code), int(), bytes()]:
            return kind is _GLOBAL and len(code) == 1 and code in "bBuhHiIlLqQfd"
    return False


def _row(items: list[Any]) -> bool:
    if not 2 <= len(items) <= 3 or not _is(items[0], _LIST):
        return False
    names = items[1]
    if names is not None and not (_is(names, _LIST) and all(name.__class__ is str for name in names.items)):
        return False
    return len(items) == 2 or (_is_object(items[2]) and items[2].name == ("beadline.common.types", "RowKind"))


def _trigger_result(items: list[Any]) -> bool:
    return len(items) == 1 and _is(items[0], _TUPLE) and _all(bool, bool)(items[0].items)


def _boxed(items: list[Any]) -> bool:
    return len(items) == 2 and items[1].__class__ is bytes


def _blank(items: list[Any]) -> bool:
    return len(items) == 2 and _is(items[0], _GLOBAL) and _is_names(items[1])


def _is_names(value: Any) -> bool:
    return _is(value, _TUPLE) and all(name.__class__ is str for name in value.items)


def _is_fields(items: list[Any]) -> bool:
    """Names, and as many values."""
    fits = len(items) == 2 and _is_names(items[0]) and _is(items[1], _TUPLE)
    return fits and len(items[0].items) == len(items[1].items)


def _elements(items: list[Any]) -> bool:
    return not items or (len(items) == 1 and (_is(items[0], _LIST) or _is(items[0], _TUPLE)))


def _empty(items: list[Any]) -> bool:
    return not items


def _any(items: list[Any]) -> bool:
    """The function looks at its arguments itself."""
    return True


_UNPICKLE_ZONE: Name = ("zoneinfo", "ZoneInfo._unpickle")

#: Plain classes and functions that a pickle may call, each with a look at the arguments.
CALLS: dict[Name, Rule] = {
    ("builtins", "complex"): _all(float, float),
    ("builtins", "range"): _all(int, int, int),
    ("builtins", "slice"): lambda items: len(items) == 3,
    ("builtins", "bytearray"): lambda items: not items or _all(bytes)(items),
    ("builtins", "set"): _elements,
    ("builtins", "frozenset"): _elements,
    ("builtins", "getattr"): lambda items: len(items) == 2 and _is_zone(items[0]) and items[1] == "_unpickle",
    _UNPICKLE_ZONE: _named_zone,
    ("collections", "OrderedDict"): _empty,
    ("collections", "defaultdict"): lambda items: not items or (len(items) == 1 and _class_value(items[0])),
    ("collections", "deque"): _deque,
    ("collections", "Counter"): lambda items: not items or (len(items) == 1 and _is(items[0], _DICT)),
    ("datetime", "date"): _date,
    ("datetime", "time"): _time,
    ("datetime", "datetime"): _moment,
    ("datetime", "timedelta"): _length_of_time,
    ("datetime", "timezone"): _zone_with_offset,
    ("decimal", "Decimal"): _decimal,
    ("fractions", "Fraction"): _fraction,
    ("uuid", "SafeUUID"): lambda items: len(items) == 1 and items[0] in (0, -1, None),
    ("array", "_array_reconstructor"): _array,
    ("beadline.common.types", "new_row"): _row,
    ("beadline.common.types", "RowKind"): lambda items: _all(int)(items) and 0 <= items[0] <= 3,
    ("beadline.api.windows.trigger", "TriggerResult"): _trigger_result,
    ("beadline.state.key_groups", "BoxedKey"): _boxed,
    (_NAMED, "blank"): _blank,
    (_NAMED, "fill"): _any,
    (_NAMED, "tuple_of"): lambda items: len(items) == 3 and _is(items[0], _GLOBAL) and _is_fields(items[1:]),
    **{(_ARRAYS, name): _any for name in ("type_of", "array_of", "scalar_of")},
    ("numpy", "dtype"): _any,
    **{(f"numpy.{core}.multiarray", name): _any for core in ("_core", "core") for name in ("_reconstruct", "scalar")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _any for core in ("_core", "core")},
}


def _is_zone(value: Any) -> bool:
    return _is(value, _GLOBAL) and value.name == _ZONE


_NUMPY_DRAFTS = {
    ("numpy", "dtype"),
    *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("_core", "core")),
}
_COLLECTIONS = {
    **{("collections", name): _FILLABLE for name in ("OrderedDict", "defaultdict", "deque", "Counter")},
    (_NAMED, "tuple_of"): _FILLABLE,
}

_ANY_INT = (-(1 << 256), 1 << 256)
_UUID: Name = ("uuid", "UUID")
#: Plain classes whose instances are made empty and get these fields: names, lowest and highest value.
FIELDS: dict[Name, tuple[frozenset[str], int, int] | None] = {
    ("builtins", "object"): None,
    _UUID: (frozenset({"int"}), 0, (1 << 128) - 1),
    (_WINDOWS, "TimeWindow"): (frozenset({"start", "end"}), *_ANY_INT),
    (_WINDOWS, "CountWindow"): (frozenset({"id"}), *_ANY_INT),
    (_WINDOWS, "GlobalWindow"): None,
    ("beadline.common.time", "Duration"): (frozenset({"_nanos"}), *_ANY_INT),
    ("beadline.common.time", "Instant"): (frozenset({"seconds", "nanos"}), *_ANY_INT),
    ("beadline.common.time", "Time"): (frozenset({"_milliseconds"}), *_ANY_INT),
}
#: Classes that are values and that nothing is made by in this way.
_VALUES: frozenset[Name] = frozenset(
    {("builtins", name) for name in ("list", "tuple", "dict", "int", "float", "str", "bytes", "bool")}
    | {("array", "array"), ("numpy", "ndarray"), ("beadline.common.types", "Row"), _ZONE}
)
#: All that pickles may refer to without being told so.
PLAIN: frozenset[Name] = _VALUES.union(CALLS, FIELDS, (FROZEN,)) - {_UNPICKLE_ZONE}

from __future__ import annotations

from typing import Any, ClassVar

from beadline.common.typeinfo import TypeInformation, Types
from beadline.errors import ConfigurationError, TypeMismatchError


class OutputTag:
    """Names a side output: ``yield tag, value`` sends a value there, ``stream.get_side_output(tag)`` reads it.

    ::

        late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
        rows = OutputTag("rows", [Types.STRING(), Types.LONG()])    # a list of types means a row
        anything = OutputTag("anything")                            # no type: values are pickled

    Two tags are equal if their ids are: the tag that a worker yields is a copy of the one in the program.
    """

    in_use: ClassVar[bool] = False
    """Whether this process has seen any tag: as long as it has not, no result needs to be looked at for one."""

    def __new__(cls, *_: Any, **__: Any) -> OutputTag:
        OutputTag.in_use = True
        return super().__new__(cls)

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        if tag_id is None or tag_id == "":
            raise ConfigurationError("An OutputTag needs an id that is not empty, for example OutputTag('late-data').")
        if not isinstance(tag_id, str):
            raise TypeMismatchError(f"The id of an OutputTag must be a str, not {type(tag_id).__name__}: {tag_id!r}.")
        self.tag_id = tag_id
        self.type_info = _as_type_info(tag_id, type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info})"


def _as_type_info(tag_id: str, type_info: Any) -> TypeInformation:
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, list):
        return Types.ROW(type_info)
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeMismatchError(
        f"The type of OutputTag {tag_id!r} must be a TypeInformation, a list of them or None, "
        f"not {type(type_info).__name__}: {type_info!r}."
    )

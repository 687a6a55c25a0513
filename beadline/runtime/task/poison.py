"""Poison: a record that makes its operator fail every time it is replayed.

After some tries the job can go on without it. The driver then names the record, by a digest, to the operator, which
drops it on arrival or sends it to a side output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import xxhash

from beadline.connectors.source import Unreadable
from beadline.errors import BeadlineError
from beadline.runtime.exchange.writer import Timestamps
from beadline.state.codec import dumps

if TYPE_CHECKING:
    from beadline.runtime.operators.base import Operator

#: The id of the side output.
TAG = "beadline-poison"


@dataclass(frozen=True)
class Poison:
    """The records to keep out.

    :ivar records: the digests of the records, by node
    :ivar to_side_output: send them to the side output :data:`TAG` of the operator; else they are dropped
    """

    records: Mapping[int, frozenset[str]] = field(default_factory=dict)
    to_side_output: bool = False


def digest_of(record: Any) -> str | None:
    """Equal for a record that is replayed; None for one that can't be pickled."""
    if isinstance(record, Unreadable):
        record = record.identity
    try:
        return xxhash.xxh3_128_hexdigest(dumps(record))
    except BeadlineError:
        return None


def guard(operator: Operator[Any], poison: Poison | None) -> None:
    """Keep known poison from an operator in the step that begins."""
    operator.__dict__.pop("records", None)
    digests = poison.records.get(operator.node.id) if poison is not None else None
    if not digests or poison is None:
        return
    process, to_side = operator.records, poison.to_side_output

    def records(input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        good = sift(operator, records, timestamps, digests, to_side)
        if len(good) == len(records):
            process(input_index, records, timestamps, keys)
        elif good:
            process(
                input_index,
                [records[i] for i in good],
                None if timestamps is None else [timestamps[i] for i in good],
                None if keys is None else [keys[i] for i in good],
            )

    operator.records = records  # type: ignore[method-assign]


def sift(
    operator: Operator[Any], records: list[Any], timestamps: Timestamps, digests: frozenset[str], to_side: bool
) -> list[int]:
    """The positions of the records that are no poison; poison goes to the side output, if it is to."""
    bad = [i for i, record in enumerate(records) if digest_of(record) in digests]
    if bad and to_side:
        times = None if timestamps is None else [timestamps[i] for i in bad]
        operator.output.emit_side(TAG, [records[i] for i in bad], times)
    left_out = set(bad)
    return [i for i in range(len(records)) if i not in left_out]

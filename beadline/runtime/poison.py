"""Poison: a record that makes its operator fail every time it is replayed.

After some tries the job can go on without it. The driver then names the record, by a digest, to the operator, which
drops it on arrival or sends it to a side output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from beadline.errors import BeadlineError
from beadline.runtime.operators.base import Operator
from beadline.runtime.writer import Timestamps
from beadline.state.codec import dumps

#: The id of the side output.
TAG = "beadline-poison"


@dataclass(frozen=True)
class Poison:
    """The records to keep out.

    :ivar records: by node, their digests
    :ivar to_side_output: send them to the side output :data:`TAG` of the operator; else they are dropped
    """

    records: Mapping[int, frozenset[str]] = field(default_factory=dict)
    to_side_output: bool = False


def digest_of(record: Any) -> str | None:
    """Equal for a record that is replayed; None for one that can't be pickled."""
    try:
        return xxhash.xxh3_128_hexdigest(dumps(record))
    except BeadlineError:
        return None


def guard(operator: Operator, poison: Poison | None) -> None:
    """Keep known poison from an operator in the step that begins."""
    operator.__dict__.pop("records", None)
    digests = poison.records.get(operator.node.id) if poison is not None else None
    if not digests or poison is None:
        return
    process, to_side = operator.records, poison.to_side_output

    def records(input_index: int, records: list[Any], timestamps: Timestamps, keys: list[Any] | None) -> None:
        bad = {i for i, record in enumerate(records) if digest_of(record) in digests}
        if not bad:
            process(input_index, records, timestamps, keys)
            return
        if to_side:
            times = None if timestamps is None else [timestamps[i] for i in sorted(bad)]
            operator.output.emit_side(TAG, [records[i] for i in sorted(bad)], times)
        good = [i for i in range(len(records)) if i not in bad]
        if good:
            process(
                input_index,
                [records[i] for i in good],
                None if timestamps is None else [timestamps[i] for i in good],
                None if keys is None else [keys[i] for i in good],
            )

    operator.records = records  # type: ignore[method-assign]

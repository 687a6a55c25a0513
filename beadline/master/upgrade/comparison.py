"""The answer to how a snapshot fits a program: plain data, and the words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from beadline.api.state_descriptors import StateMigration
from beadline.checkpoint.contents.snapshot import Snapshot, SnapshotError
from beadline.common.type_description import readable
from beadline.graph.plan import Plan
from beadline.state.description import OPERATOR, StateDescription
from beadline.state.heap.timers import TimerTable


class Fate(Enum):
    """What happens to an operator or to one of its states."""

    RESTORED = "restored"
    NEW = "new"
    DROPPED = "dropped"
    STATELESS = "stateless"
    MIGRATED = "migrated"
    REFUSED = "refused"
    LATER = "declared later"
    """A window's trigger or function declares it when it first needs it."""

    UNUSED = "not declared"
    """The program does not declare it in ``open``. It stays in the state, and who asks for it later gets it."""


@dataclass(frozen=True)
class StateComparison:
    """One state of an operator, as it was and as it is declared now; ``hooks`` are the user's functions for old
    types."""

    name: str
    fate: Fate
    old: StateDescription | None = None
    new: StateDescription | None = None
    note: str = ""
    refusal: str = ""
    hooks: tuple[StateMigration, ...] = ()


@dataclass(frozen=True)
class Migration:
    """A state of an operator that is to be rewritten before the job starts, with the user's functions for old types."""

    uid: str
    old: StateDescription
    new: StateDescription
    hooks: tuple[StateMigration, ...] = ()


@dataclass(frozen=True)
class OperatorComparison:
    """One operator of the snapshot, of the program, or of both. ``generated``: its uid was made from the topology."""

    uid: str
    name: str
    fate: Fate
    states: tuple[StateComparison, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    generated: bool = False


@dataclass(frozen=True)
class Comparison:
    """A snapshot and a program. Where the plan leaves max parallelism open, it has that of the state."""

    snapshot: Snapshot
    plan: Plan
    operators: tuple[OperatorComparison, ...]
    allow_unclaimed: bool = False

    @property
    def refusals(self) -> list[str]:
        """Why the job can't start from the snapshot; empty if it can."""
        found = [] if self.allow_unclaimed else _unclaimed(self.operators)
        for operator in self.operators:
            found += operator.refusals
            found += [state.refusal for state in operator.states if state.refusal]
        return found

    @property
    def warnings(self) -> list[str]:
        generated = [(o.name, o.uid) for o in self.operators if o.generated and o.fate is not Fate.STATELESS]
        return [generated_uids(generated)] if generated else []

    @property
    def migrations(self) -> list[Migration]:
        """The states that are to be rewritten before the job starts."""
        return [
            Migration(operator.uid, state.old, state.new, state.hooks)
            for operator in self.operators
            for state in operator.states
            if state.fate is Fate.MIGRATED and state.old is not None and state.new is not None
        ]

    def check(self, pointer: str) -> None:
        """Raise if the job can't start from the snapshot, with all reasons at once."""
        refusals = self.refusals
        if len(refusals) == 1:
            raise SnapshotError(f"the job can't start from {pointer}: {refusals[0]}")
        if refusals:
            listed = "".join(f"\n  {number}. {reason}" for number, reason in enumerate(refusals, 1))
            raise SnapshotError(f"the job can't start from {pointer}, for {len(refusals)} reasons:{listed}")

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The table: operator, state, what happens to it, what changed."""
        for operator in self.operators:
            what = f"{operator.name} (uid {operator.uid})" + (", generated" if operator.generated else "")
            if operator.fate is Fate.STATELESS:
                what = operator.name
            yield what, "", operator.fate.value, "; ".join(operator.notes)
            for state in operator.states:
                yield "", state.name, state.fate.value, state.note

    def text(self) -> str:
        """The table as plain text."""
        rows = [("operator", "state", "", ""), *self.rows()]
        first, second, third = (max(len(row[i]) for row in rows) for i in range(3))
        lines = [f"  {a:<{first}}  {b:<{second}}  {c:<{third}}  {d}".rstrip() for a, b, c, d in rows]
        return "\n".join(lines)


def _unclaimed(operators: tuple[OperatorComparison, ...]) -> list[str]:
    lost = [operator for operator in operators if operator.fate is Fate.DROPPED]
    if not lost:
        return []
    generated = [operator for operator in lost if operator.generated]
    text = no_operator_for([(o.name, o.uid) for o in lost])
    if generated:
        text += f". An operator takes over a generated uid with .set_uid_hash('{generated[0].uid}')"
    return [text]


# -- words


def no_operator_for(operators: list[tuple[str, str]]) -> str:
    """Why the state of operators, given as name and uid, is refused."""
    return (
        f"the program has no operator for the state of {_named(operators)}. Give operators the uid they had "
        "(.uid('…')), or drop this state with --allow-non-restored-state "
        "(execution.state-recovery.ignore-unclaimed-state)"
    )


def shown_name(description: StateDescription) -> str:
    if description.kind == TimerTable.kind:
        return "event-time timers" if description.name.startswith("_event") else "processing-time timers"
    return description.name


def type_of(description: StateDescription) -> str:
    """The type of a state for people to read."""
    if description.kind == TimerTable.kind:
        return ""
    inner = readable(description.type) if description.type else "any object"
    if description.map_key_type or description.descriptor == "MapState":
        key = readable(description.map_key_type) if description.map_key_type else "any object"
        inner = f"{key} → {inner}"
    return f"{kind_of(description)} of {inner}"


def kind_of(description: StateDescription) -> str:
    """value, list, map, union, broadcast, …: what the program would call it."""
    if description.scope == OPERATOR:
        return {"list": "operator list", "union": "union list"}.get(description.kind, description.kind)
    return description.kind + (", by window," if description.namespaced else "")


def described(description: StateDescription) -> str:
    ttl = "" if description.ttl_ms is None else f" with a time to live of {description.ttl_ms} ms"
    return f"a {type_of(description)}{ttl}"


def changes_of(old: StateDescription, new: StateDescription) -> str:
    """What differs, empty if nothing does."""
    changes = []
    if type_of(old) != type_of(new):
        changes.append(f"{type_of(old)} → {type_of(new)}")
    if old.ttl_ms != new.ttl_ms:
        before, now = ("none" if ttl is None else f"{ttl} ms" for ttl in (old.ttl_ms, new.ttl_ms))
        changes.append(f"time to live {before} → {now}")
    return "; ".join(changes)


def _named(operators: list[tuple[str, str]]) -> str:
    return ", ".join(f"'{name}' (uid {uid})" for name, uid in operators)


def generated_uids(operators: list[tuple[str, str]]) -> str:
    """A warning about state that may not find its operator again. ``operators``: name and uid of each."""
    return (
        f"generated uids of operators that have state: {_named(operators)}. They change when operators are added, "
        "removed or moved, and the state is then not found again: call .uid('…')"
    )

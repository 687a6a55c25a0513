"""What a snapshot holds: its operators and their states, found by name. The error for an unknown name lists the known
ones."""

from __future__ import annotations

from collections.abc import Iterable

from beadline.checkpoint.contents.snapshot import OperatorSnapshot, Snapshot, SnapshotError
from beadline.checkpoint.directory.lookup import read_snapshot
from beadline.state.description import KEYED, OPERATOR, StateDescription
from beadline.state.heap.timers import TimerTable
from beadline.state.operator.handles import BROADCAST, LIST, UNION

#: How a state is read: the reader's method for it.
_READ_WITH = {LIST: "list_state", UNION: "union_state", BROADCAST: "broadcast_state"}


class Catalog:
    """The operators and states of one snapshot.

    :ivar path: where it is, for messages
    """

    def __init__(self, path: str, snapshot: Snapshot | None = None) -> None:
        self.path = path
        self.snapshot = read_snapshot(path) if snapshot is None else snapshot

    def operator(self, uid: str) -> OperatorSnapshot:
        """An operator by its uid, or the uid hash if it was given one."""
        found = self.snapshot.operator(uid)
        if found is not None:
            return found
        known = (f"'{operator.uid}' ({operator.name})" for operator in self.snapshot.operators)
        raise SnapshotError(f"{self.path} has no operator with uid '{uid}'; {_there_is(known, 'operators')}")

    def states(self, uid: str) -> list[StateDescription]:
        return states_of(self.operator(uid))

    def keyed_state(self, uid: str, name: str, windowed: bool) -> StateDescription:
        state = self._state(uid, name, KEYED, "keyed_state")
        if state.kind == TimerTable.kind:
            raise SnapshotError(f"'{name}' of operator '{uid}' holds timers; read them with timers('{uid}')")
        if state.namespaced != windowed:
            what = "by window" if state.namespaced else "by key"
            raise SnapshotError(f"state '{name}' of operator '{uid}' is kept {what}; {_advice(state)}")
        return state

    def keyed_operator(self, uid: str, state: str | None = None) -> OperatorSnapshot:
        """An operator that has keys, and that keyed state if one is named."""
        operator = self.operator(uid)
        if not operator.keyed:
            raise SnapshotError(f"operator '{uid}' in {self.path} has no keyed state")
        known = [found.name for found in self.states(uid) if found.scope == KEYED]
        if state is not None and state not in known:
            there = _there_is(map(repr, known), "keyed states")
            raise SnapshotError(f"operator '{uid}' in {self.path} has no keyed state '{state}'; {there}")
        return operator

    def operator_state(self, uid: str, name: str, mode: str) -> StateDescription:
        state = self._state(uid, name, OPERATOR, _READ_WITH[mode])
        if state.kind != mode:
            raise SnapshotError(f"state '{name}' of operator '{uid}' is a {state.kind} state; {_advice(state)}")
        return state

    def _state(self, uid: str, name: str, scope: str, method: str) -> StateDescription:
        states = self.states(uid)
        for state in states:
            if (state.scope, state.name) == (scope, name):
                return state
        for state in states:
            if state.name == name:
                raise SnapshotError(
                    f"state '{name}' of operator '{uid}' is {state.scope} state and can't be read with {method}(); "
                    f"{_advice(state)}"
                )
        known = (f"'{state.name}' ({state.scope} {state.kind})" for state in states)
        raise SnapshotError(
            f"operator '{uid}' in {self.path} has no state named '{name}'; {_there_is(known, 'states')}"
        )


def states_of(operator: OperatorSnapshot) -> list[StateDescription]:
    """The states of an operator. Operator state without a description is known by name and mode."""
    states = {(state.scope, state.name): state for state in operator.state_descriptions}
    for handle in operator.operator_state:
        for name, ref in handle.states.items() if handle is not None else ():
            states.setdefault((OPERATOR, name), StateDescription(name, ref.mode, scope=OPERATOR))
    return list(states.values())


def _advice(state: StateDescription) -> str:
    if state.scope == KEYED:
        return f"read it with {'window_state' if state.namespaced else 'keyed_state'}()"
    method = _READ_WITH.get(state.kind)
    return f"read it with {method}()" if method else "only the program that wrote it can read it"


def _there_is(known: Iterable[str], what: str) -> str:
    found = ", ".join(known)
    return f"there is {found}" if found else f"it has no {what}"

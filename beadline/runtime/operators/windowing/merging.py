"""Windows that grow together: which windows a key has, and in which slot each keeps its contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from beadline.api.state import MapState
from beadline.api.windows.assigner import MergingWindowAssigner

OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]


class MergingWindows:
    """The merging windows of the current key, kept in map state: window to *state window*.

    Contents stay where they are when a window grows: the new window keeps the slot of one of the merged ones, so
    that an element costs the same however many came before it.
    """

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], windows: MapState[Any, Any]) -> None:
        self._assigner = assigner
        self._windows = windows

    def state_window(self, window: Any) -> Any:
        """Where a window's contents are; None if there is no such window any more."""
        return self._windows.get(window)

    def retire(self, window: Any) -> None:
        self._windows.remove(window)

    def add(self, window: Any, on_merge: OnMerge) -> Any:
        """Add a window and merge what belongs together. Gives the window that the new one has become part of.

        ``on_merge(result, merged, state window, merged state windows)`` is called for every merge of existing windows.
        """
        known = list(self._windows.keys())
        merges: list[tuple[Any, list[Any]]] = []

        class Callback(MergingWindowAssigner.MergeCallback[Any]):
            def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
                merges.append((merge_result, list(to_be_merged)))

        self._assigner.merge_windows([*known, window], Callback())
        result = window
        for merge_result, parts in merges:
            existing = [part for part in parts if part in known]
            if window in parts:
                result = merge_result
            state_windows = [self._windows.get(part) for part in existing]
            for part in existing:
                self._windows.remove(part)
            kept = state_windows[0] if state_windows else merge_result
            self._windows.put(merge_result, kept)
            if existing and existing != [merge_result]:
                on_merge(merge_result, [part for part in existing if part != merge_result], kept, state_windows[1:])
        if self._windows.get(result) is None:
            self._windows.put(result, result)
        return result

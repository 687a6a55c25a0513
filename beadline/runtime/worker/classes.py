"""The classes of a program that pickles may hold, wherever they are read: in state and in staged output."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from beadline.state import codec


@dataclass(frozen=True)
class Classes:
    """What unpickling must find, and may trust.

    :ivar of_main: classes of the user's script, set on the worker's ``__main__`` so that their instances unpickle
    :ivar job_modules: the modules whose classes state and output may hold
    :ivar registered: other classes that they may hold
    """

    of_main: dict[str, type] = field(default_factory=dict)
    job_modules: tuple[str, ...] = ()
    registered: frozenset[tuple[str, str]] = frozenset()

    def enter(self) -> None:
        """Trust these and no others: a step belongs to one job."""
        self._show()
        codec.trust(self.job_modules, self.registered)

    def enter_too(self) -> None:
        """In addition to what is trusted: other jobs may be under way in this process."""
        self._show()
        self.trust_too()

    def trust_too(self) -> None:
        """The same on the driver, whose ``__main__`` is the script itself."""
        codec.trust_also(self.job_modules, self.registered)

    def _show(self) -> None:
        main = sys.modules["__main__"]
        for name, cls in self.of_main.items():
            setattr(main, name, cls)

"""What the options of the REST server say, checked once and then fixed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from beadline.common.configuration import Configuration
from beadline.common.option_texts import parse_list
from beadline.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
_HIGHEST = 65535
_SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")


class Key:
    """The options that :meth:`RestSettings.from_configuration` reads."""

    ENABLED = "beadline.rest.enabled"
    TOKEN = "beadline.rest.token"
    READ_TOKEN = "beadline.rest.read-token"
    PORT = "rest.port"
    BIND_PORT = "rest.bind-port"
    BIND_ADDRESS = "rest.bind-address"
    ADDRESS = "rest.address"
    SAVEPOINT_DIRECTORIES = "beadline.rest.savepoint-directories"
    HISTORY_DIRECTORY = "beadline.history.dir"
    HISTORY_JOBS = "beadline.history.retained-jobs"


KEYS = frozenset(key for name, key in vars(Key).items() if name.isupper())

#: The value of ``beadline.rest.token`` that lets everybody on this machine change the job, as Flink does.
NO_TOKEN = "none"


@dataclass(frozen=True)
class RestSettings:
    """Where a job's process answers questions about it, and who may ask for changes.

    :ivar bind_address: the interface that is listened on
    :ivar address: a name by which others reach this machine, if the user gave one
    :ivar ports: what to try in turn, as first and last of ranges; ``((0, 0),)`` for any free port
    :ivar token: what callers must show; ``none`` for nothing, None for a new one for each process
    :ivar read_token: whether reading needs it too, also on this machine
    :ivar savepoint_directories: where callers without a token may put savepoints, besides the job's own directories
    :ivar history_directory: where records of ended jobs are kept; None for the user's state directory
    :ivar history_jobs: how many of them are kept
    """

    enabled: bool = True
    bind_address: str = LOOPBACK
    address: str | None = None
    ports: tuple[tuple[int, int], ...] = ((0, 0),)
    token: str | None = field(default=None, repr=False)
    read_token: bool = False
    savepoint_directories: tuple[str, ...] = ()
    history_directory: str | None = None
    history_jobs: int = 50

    def __post_init__(self) -> None:
        if self.history_jobs < 0:
            raise ConfigurationError(f"{Key.HISTORY_JOBS} is {self.history_jobs}; it must be at least 0 (keep none).")
        if self.token == NO_TOKEN:
            if self.read_token:
                raise ConfigurationError(
                    f"{Key.READ_TOKEN}: true asks callers for a token, and {Key.TOKEN}: none says that there is none. "
                    f"Leave one of the two out."
                )
            if self.enabled and not self.on_loopback:
                raise ConfigurationError(
                    f"{Key.TOKEN}: none lets everybody who reaches the port change the job, so it works on the "
                    f"loopback interface only, not with {Key.BIND_ADDRESS} {self.bind_address}. Leave one of the two "
                    "out."
                )
        elif self.token is not None and (len(self.token) < _SHORTEST_TOKEN or not _TOKEN.fullmatch(self.token)):
            raise ConfigurationError(
                f"{Key.TOKEN} must be 'none' or have at least {_SHORTEST_TOKEN} letters, digits or any of ._~+/=- "
                f"(it has {len(self.token)} characters). Leave it out to get a new one for each run."
            )

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> RestSettings:
        """The settings of a job."""
        port_key = Key.BIND_PORT if configuration.contains_key(Key.BIND_PORT) else Key.PORT
        return cls(
            enabled=configuration.get_boolean(Key.ENABLED, cls.enabled),
            bind_address=(configuration.get_string(Key.BIND_ADDRESS, None) or cls.bind_address).strip(),
            address=configuration.get_string(Key.ADDRESS, None),
            ports=_ports(configuration.get_string(port_key, "0"), port_key),
            token=configuration.get_string(Key.TOKEN, None),
            read_token=configuration.get_boolean(Key.READ_TOKEN, cls.read_token),
            savepoint_directories=tuple(
                str(each) for each in parse_list(configuration.get_string(Key.SAVEPOINT_DIRECTORIES, ""))
            ),
            history_directory=configuration.get_string(Key.HISTORY_DIRECTORY, None),
            history_jobs=configuration.get_integer(Key.HISTORY_JOBS, cls.history_jobs),
        )

    @property
    def on_loopback(self) -> bool:
        """Whether only processes of this machine can reach it."""
        if self.bind_address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.bind_address).is_loopback
        except ValueError:
            return False

    @property
    def host(self) -> str:
        """What to bind: ``localhost`` is one address here, not whatever the machine makes of it."""
        return LOOPBACK if self.bind_address == "localhost" else self.bind_address

    def candidates(self) -> Iterator[int]:
        """The ports to try, in order."""
        for first, last in self.ports:
            yield from range(first, last + 1)

    def ports_text(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ports)


def _ports(text: str, key: str) -> tuple[tuple[int, int], ...]:
    """``8081``, ``8081-8090``, or several of these with commas, as in Flink."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", part, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= first <= last <= _HIGHEST:
            raise ConfigurationError(
                f"{key} is {text!r}: it takes a port from 0 (any that is free) to {_HIGHEST}"
                + (", a range such as 8081-8090, or several of them with commas." if key == Key.BIND_PORT else ".")
            )
        found.append((first, last))
    if key == Key.PORT and (len(found) > 1 or found[0][0] != found[0][1]):
        raise ConfigurationError(f"{key} is {text!r}: it takes one port. A range goes to {Key.BIND_PORT}.")
    return tuple(found)

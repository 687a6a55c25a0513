"""``beadline history``: a server with the pages of jobs that have ended."""

from __future__ import annotations

import errno
from typing import Annotated

import typer

from beadline.cli.output import CommandError, problems_told

_PORT = 8082


def history(
    port: Annotated[
        int,
        typer.Option("-p", "--port", metavar="PORT", min=0, max=65535, help="Where it listens; 0 is any free port."),
    ] = _PORT,
    directory: Annotated[
        str | None,
        typer.Option(
            "--dir", metavar="DIR", help="The archive; by default that of this user, or beadline.history.dir."
        ),
    ] = None,
) -> None:
    """Serve the dashboard for jobs that have ended, until Ctrl-C."""
    from beadline.cli.ended import archive_directory
    from beadline.web.server import serve_history

    with problems_told("The server of the history has ended."):
        chosen = directory or archive_directory()
        try:
            serve_history(chosen, "127.0.0.1", port, lambda url: typer.echo(f"History of ended jobs: {url}"))
        except OSError as error:
            why = "another program listens there" if error.errno == errno.EADDRINUSE else str(error)
            raise CommandError(
                f"nothing can be served at port {port}: {why}. Choose another with --port, or 0 for any that is free."
            ) from error

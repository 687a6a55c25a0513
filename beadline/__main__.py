"""``python -m beadline``: the command, for a Python whose scripts are not on the path."""

from beadline.cli.main import app

app(prog_name="beadline")

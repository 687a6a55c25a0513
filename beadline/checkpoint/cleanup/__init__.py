"""What goes when nobody needs it any more.

``removal`` deletes what Beadline wrote and nothing else. ``disposal`` is for a savepoint or a left checkpoint, for the
files of a snapshot that a job took over, and for what earlier runs of a program left.
"""

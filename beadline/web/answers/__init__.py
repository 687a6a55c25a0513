"""What Flink's REST paths answer, and our own, as pure functions from records to JSON.

=================== ==========================================================================================
module              paths
=================== ==========================================================================================
``jobs``            ``/jobs``, ``/jobs/overview``, ``/jobs/:jid`` with ``config``, ``plan``, ``status``, …
``vertices``        ``/jobs/:jid/vertices/:vid`` and what is below it
``checkpoints``     ``/jobs/:jid/checkpoints`` and what is below it
``exceptions``      ``/jobs/:jid/exceptions``
``metrics``         ``…/metrics`` of jobs, vertices and subtasks
``cluster``         ``/overview``, ``/config``, ``/taskmanagers``, ``/jobmanager/config``
``own``             ``/jobs/:jid/beadline``, ``…/beadline/vertices``, ``…/beadline/timeline``
``prometheus``      the text of ``/metrics``
=================== ==========================================================================================

Field names, types and units are those of Flink 2.3. Where Flink's concept has no counterpart here, the value is the one
that Flink gives if there is nothing to say (0, -1, an empty list), never an invented number. What a path names and the
record does not have raises :class:`NotFound`.
"""

from beadline.web.answers.words import NotFound

__all__ = ["NotFound"]

"""The state of a running job over REST: what there is, one key, the largest keys, a view for SQL.

All answers are about the last sealed step. ``app.py`` includes ``router(master_of)``, where ``master_of(job_id)`` gives
the live ``JobMaster``, or None if the job is unknown or has ended (404 then).

``GET /jobs/:id/beadline/state``, perhaps with ``?operator=uid`` for one operator::

    {"job_id": "…", "step": 42, "at": 1700000000000, "bytes": 123456, "operators": [
      {"uid": "count", "name": "Count", "vertex_id": "32 hex digits", "generated_uid": false, "parallelism": 2,
       "max_parallelism": 128, "key_type": "STRING" or null (not declared, or not keyed), "keyed": true,
       "exact": true,           numbers of entries are counted; false: as the files' indexes say, with entries that
                                later ones have replaced (then they are upper bounds)
       "keys": 1200 or null,    keys with state; null if they were not counted
       "entries": 2400, "bytes": 98765,
       "states": [{"name": "total", "scope": "keyed" or "operator", "kind": "value|list|map|timer|union|broadcast|…",
                   "descriptor": "ValueState" or null, "type": "LONG" or null, "map_key_type": null,
                   "windowed": false, "ttl_ms": null, "entries": 1200, "bytes": 4567}],
       "subtasks": [{"subtask": 0, "first_key_group": 0, "last_key_group": 63, "keys": 600 or null, "entries": 1200,
                     "bytes": 49000}],      key groups are null for operators that are not keyed
       "key_groups": {"width": 1, "entries": [19, 17, …], "bytes": [780, 690, …]} or null if not keyed}]}
                                how entries spread over key groups: element i is for the groups from i * width on;
                                at most 256 elements

Timers are states of kind ``timer``, named ``_event-timers`` and ``_processing-timers`` or alike.

``GET …/state/key?operator=uid&key=text``, perhaps with ``&state=name``. The text is parsed by the declared key type: a
number, a string as it is, JSON for tuples, rows and lists (``["ann", 7]``). Without a declared type, what matches is
taken: the text itself, or what it is as JSON::

    {"job_id": "…", "step": 42, "operator": "count", "key": "ann" (as JSON), "key_type": "STRING" or null,
     "key_group": 17, "subtask": 0, "found": true, "bytes": 321,
     "states": [{"name": "total", "kind": "value", "descriptor": "ValueState" or null, "type": "LONG" or null,
                 "windowed": false, "ttl_ms": null,
                 "entries": [{"window": {"start": 0, "end": 60000} or null, "value": any JSON, "bytes": 12,
                              "truncated": false,       true: "value" is the beginning of its JSON, as text
                              "written_at": ms or null, "expires_at": ms or null, "expired": false}],
                 "left_off": 0}],                       entries (windows) that are not shown
     "timers": [{"domain": "event" or "processing", "timestamp": ms, "window": null or {…}}], "timers_left_off": 0}

``GET …/state/largest?operator=uid&n=10``, perhaps with ``&state=name``::

    {"job_id": "…", "step": 42, "operator": "count", "keys": [
      {"key": "ann", "key_group": 17, "subtask": 0, "bytes": 4711, "entries": 3, "states": {"total": 12, …}}],
     "keys_seen": 1200, "bytes_seen": 98765, "complete": true,    false: the time was up; see "note"
     "note": null or a sentence, "seconds": 0.02}

``POST …/state/view`` with ``{"keep_seconds": 60}``: a snapshot of the last sealed step, whose files stay for that long
(600 s at most). With ``"view": id`` an earlier view is kept for longer, or let go of with ``"keep_seconds": 0``::

    {"view": "…", "job_id": "…", "step": 42, "kept_until": ms, "metadata": "the text of a checkpoint's _metadata"}

Errors are ``{"errors": ["a sentence"]}``: 400 for a key that its type can't be, 404 for an unknown job, operator, state
or view, 503 if the job restarts just now or is busy with another question of this kind.
"""

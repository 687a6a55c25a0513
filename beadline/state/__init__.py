"""State: what functions hold, how a worker keeps it, how it is stored. Nothing here knows of Spark.

====================  ==================================================================
``access``            what user code holds of keyed state
``store``             the working copy in a worker, kept between steps
``heap``, ``rocks``   the two kinds of it, with the same file names
``segments``          the durable form: immutable files, versions and handles
``parquet``           the same as Parquet, for savepoints
``operator``          operator state, in a worker and stored
``key_groups``        which subtask owns a key
``codec``, ``named``  what a value becomes when it leaves the hands of user code
``description``       what is known of a state beyond its name
``evolution``         what becomes of state whose declared type has changed
``backend_settings``  which backend a job works with
``disks``             a disk that is full
====================  ==================================================================

``codec``, ``key_groups`` and ``named`` stay where they are: pickles in stored state name them.
"""

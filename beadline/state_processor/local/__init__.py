"""Looking at state in this process, without Spark and without the program that wrote it.

It reads a snapshot: a checkpoint, a savepoint of either format, or a sealed step of a running job. ``overview`` says
what there is, ``lookup`` finds one key, ``largest`` the largest keys, ``tables`` gives Arrow for SQL. What they give is
plain data, ready for JSON: the command line and the REST server show the same.

Memory is bounded: state is read some key groups at a time. Nothing that a snapshot names is run: only plain types and
classes that this process trusts are made, and values of other classes are shown as rows of their fields, or as a note
that they can't be loaded.
"""

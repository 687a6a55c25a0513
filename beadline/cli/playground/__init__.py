"""The playground: a click count that is killed, stopped, rescaled and upgraded, and stays exact.

``clicks`` is what is counted and what must come out, ``generator`` the source that makes the clicks, ``programs`` the
two versions of the job. ``driver`` starts and kills processes, ``outcome`` reads what they wrote, ``story`` says what
happens when, and ``view`` shows it.
"""

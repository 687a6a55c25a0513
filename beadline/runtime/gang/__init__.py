"""A gang: Python workers that stay for a whole job and exchange rows among themselves.

``join`` is what Spark calls in each worker. ``member`` runs the tasks, ``inbox`` is what came for them. ``link``
carries frames over a socket, ``handshake`` says who is at the other end of it, ``messages`` is what driver and members
say.
"""

"""The two versions of the job. Each is a program of its own, which ``beadline run`` runs."""

"""A job as its client and its process see it: requests in, futures out, and an end in good order."""

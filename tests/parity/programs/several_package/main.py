"""A script that only calls a package, which has everything: functions, keyed state of its own classes, data."""

from orders.job import run

if __name__ == "__main__":
    run()

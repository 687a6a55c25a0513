"""The classes behind :mod:`beadline.common.typeinfo`, one family a file."""

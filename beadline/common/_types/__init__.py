"""The classes of :mod:`beadline.common.typeinfo`, one file per family."""

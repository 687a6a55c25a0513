"""Which outcomes of an asynchronous call are tried again, where PyFlink has it."""

from beadline.api.async_functions import empty_result_predicate, exception_type_predicate, has_exception_predicate

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]

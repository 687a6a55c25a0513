"""When an asynchronous call is tried again, where PyFlink has it."""

from beadline.api.async_functions import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from beadline.api.async_functions import OUT as OUT
from beadline.api.async_functions import AsyncRetryPredicate as AsyncRetryPredicate
from beadline.api.async_functions import AsyncRetryStrategy as AsyncRetryStrategy

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

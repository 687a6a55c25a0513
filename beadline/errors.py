"""The kinds of errors that Beadline raises on purpose.

::

    BeadlineError
    ├── ConfigurationError        an option or argument has a value that can't work
    ├── GraphError                the program's dataflow is not valid
    ├── UnsupportedFeatureError   PyFlink has it, Beadline does not
    ├── TypeMismatchError         a value does not fit its declared type
    ├── KeyEncodingError          a key has no canonical encoding
    ├── SerializationError        a function or value can't be sent to the workers
    ├── StateAccessError          state or timers used where there are none
    ├── StateMismatchError        a state is of another type or kind than the snapshot has; no restart helps
    ├── EnvironmentSetupError     Java, Spark or the workers' Python is missing, too old, or of the wrong kind
    ├── EngineLostError           the JVM has died, or the SparkContext was stopped, while a job ran
    ├── InputError                what a source was to read is gone, has changed, or can't be decoded
    ├── StorageError              a local database of state has no space left on its disk
    ├── JobExecutionError         the job failed; carries the operator, the record and the cause
    ├── JobFinishedError          the job to be resumed has finished: there is nothing left to do
    └── StepError                 a step can't be sealed and is run again
        ├── ChannelError          chunks missing, doubled, out of order, or a digest that disagrees
        └── VersionError          a state version is not the one that its handle names

``SnapshotError`` is declared with snapshots (:mod:`beadline.checkpoint.contents.snapshot`), and a few finer kinds of
the above where they are raised. The message says what happened, with which values, and what to do next.
"""

from __future__ import annotations


class BeadlineError(Exception):
    """The root of everything Beadline raises on purpose."""


class ConfigurationError(BeadlineError, ValueError):
    """An option or argument has a value that can't work."""


class GraphError(BeadlineError):
    """The program's dataflow is not valid."""


class UnsupportedFeatureError(BeadlineError, NotImplementedError):
    """PyFlink has this feature and Beadline does not."""


class TypeMismatchError(BeadlineError, TypeError):
    """A value does not fit the type that was declared for it."""


class KeyEncodingError(BeadlineError, TypeError):
    """A key has no canonical encoding, so no key group can own it."""


class SerializationError(BeadlineError):
    """A function or a value can't be sent to the workers."""


class StateAccessError(BeadlineError):
    """State or timers were used where there are none."""


class StateMismatchError(BeadlineError):
    """The program asks for a state of another type or kind than it has in the snapshot that the job started from."""


class EnvironmentSetupError(BeadlineError):
    """Java, Spark or the workers' Python is missing, too old, or of the wrong kind."""


class InputError(BeadlineError):
    """What a source was to read is gone, has changed since it was listed, or can't be decoded."""


class StorageError(BeadlineError):
    """A local database of state has no space left on its disk."""


class EngineLostError(BeadlineError):
    """The JVM has died, or its SparkContext was stopped, while a job ran. No restart in this process helps; the job's
    checkpoints are kept, whatever their retention."""


class JobExecutionError(BeadlineError):
    """The job failed.

    :ivar operator: name of the operator that failed, if one did
    :ivar subtask: which of its subtasks
    :ivar raised: the name of the class of what user code raised, if it did
    :ivar record: ``repr`` of the record it was working on, if any
    :ivar user_traceback: the traceback inside the worker, the user's own frames only
    :ivar full_traceback: all of it
    :ivar culprit: the operator's number and a digest of the record, if it is the record's fault
    :ivar lasting: whether it would come again however often the job is restarted
    :ivar printed: what user code printed in the step that failed
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str | None = None,
        record: str | None = None,
        user_traceback: str | None = None,
        full_traceback: str | None = None,
        culprit: tuple[int, str] | None = None,
        lasting: bool = False,
        subtask: int | None = None,
        raised: str | None = None,
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.subtask = subtask
        self.raised = raised
        self.record = record
        self.user_traceback = user_traceback
        self.full_traceback = full_traceback
        self.culprit = culprit
        self.lasting = lasting
        self.printed = ""


class TransactionUnknownError(BeadlineError):
    """A system outside has forgotten a transaction: nobody can tell whether it was committed."""


class JobFinishedError(BeadlineError):
    """The job that was to be resumed has finished: there is nothing to go on from, and nothing left to do."""


class StepError(BeadlineError):
    """A step can't be sealed; it is run again from the last sealed one."""


class ChannelError(StepError):
    """What came through a channel is not what was sent."""


class VersionError(StepError):
    """A state version is not the one that its handle names."""

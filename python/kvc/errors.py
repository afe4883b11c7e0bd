"""What can go wrong, each kind a class under `Error` and each message one line: the rule
that was broken, then the value found."""

from __future__ import annotations

import re


class Error(Exception):
    """The root of all exceptions that this package raises."""


class NotFoundError(Error):
    """libkvc.so, kvc-opt or a policy is not where it was looked for."""


class CompileError(Error):
    """kvc-opt refused a policy; the message is its line.

    `line` and `column` are the place in the policy's text, from 1, or None where the
    error belongs to no place (a shape that cannot be, a file that cannot be written).
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        place = re.match(r".*?:(\d+):(\d+): error: ", text)
        self.line = int(place[1]) if place else None
        self.column = int(place[2]) if place else None


class ArgumentError(Error, ValueError):
    """An argument has a wrong shape, type, device or value."""


class UnsupportedError(Error):
    """The policy was not compiled for this shape, or the library cannot do this."""


class LimitError(Error):
    """A size is beyond the plan's limits, or beyond what kvc can do at all."""


class AlignmentError(ArgumentError):
    """A tensor's address or strides do not allow whole accesses."""


class VersionError(Error):
    """Package and libkvc.so speak different versions of the C ABI."""


class ArtifactError(Error):
    """A compiled policy is damaged, or of a version that libkvc.so does not read."""


class DriverError(Error):
    """The driver of a GPU reported an error."""


class InternalError(Error):
    """A fault of kvc itself."""


class DataWarning(UserWarning):
    """The data has a fault that the policy passes over: a score is NaN, say."""

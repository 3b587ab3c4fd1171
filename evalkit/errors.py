"""Every error a user can cause, with the exit code the command ends in.

1. A message is one line: file, row, field, the kind of the value found, and the mend.
2. Nothing else is shown to a user: a traceback is a defect.
3. The code says who has to act: 2 the user, 74 the disk, 75 the infrastructure, 130 the user again.
"""

from __future__ import annotations

from decimal import Decimal


class EvalkitError(Exception):
    """Base of all errors whose message is meant for the user."""

    exit_code = 2


class BadInput(EvalkitError):
    """A file, a row, a field or an argument that cannot be used as it is."""


class Refused(EvalkitError):
    """A request that is understood and not granted: a rule of the protocol, the split or the run forbids it."""


class DiskRefused(EvalkitError):
    """The disk is full, read-only or failing. What was acknowledged before is still there."""

    exit_code = 74


class InfrastructureFailed(EvalkitError):
    """A server, a worker or an engine failed: nothing was learned about the model; try again."""

    exit_code = 75


class ModelChanged(InfrastructureFailed):
    """What answers is not what answered first: nobody can say which samples are whose."""


class Interrupted(EvalkitError):
    """Stopped by the user; the same command resumes."""

    exit_code = 130


def kind_of(value: object) -> str:
    """Name of a value's kind in the words of a data file: `text`, `whole number`, `null`, `list`, …"""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true/false"
    names: tuple[tuple[type, str], ...] = (
        (int, "whole number"),
        (float, "number"),
        (Decimal, "decimal number"),
        (str, "text"),
        (bytes, "bytes"),
        (dict, "object"),
        (list, "list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), type(value).__name__)

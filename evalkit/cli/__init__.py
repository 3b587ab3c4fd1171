"""The command line: one module per command group. Parse, call, print; no logic.

`main` is the only place where an error becomes a line on stderr and an exit code.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from evalkit.errors import BadInput, DiskRefused, EvalkitError, Interrupted


def main() -> None:
    """Entry point of `evalkit`."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # where a terminal is not UTF-8: no traceback
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except EvalkitError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; the same command resumes", Interrupted.exit_code)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        what = f"{error.filename or 'output'}: {error.strerror or error}; free or unlock the disk, then run it again"
        _fail(what, DiskRefused.exit_code)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run one command; its exit code. Beside `app()` because that turns Ctrl-C and a closed pipe into codes of its own,
    and says what is wrong with an argument in four lines."""
    import typer

    for number, argument in enumerate(arguments, 1):
        if not _is_text(argument):
            raise BadInput(f"argument {number}: not UTF-8; write it, or rename the file, in UTF-8")
    from evalkit.cli.app import app

    command = typer.main.get_command(app)
    try:
        with command.make_context("evalkit", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.BadParameter.__mro__[1] as error:  # type: ignore[misc]  # UsageError, which typer does not export
        return _usage(error)
    return 0


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return BadInput.exit_code
    where = getattr(error.ctx, "command_path", "evalkit")
    what = error.format_message().rstrip(".")
    raise BadInput(f"{what[:1].lower()}{what[1:]}; see {where} --help") from None


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fail(message: str, code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    print(f"evalkit: {_one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _one_line(message: str) -> str:
    """A message may quote a server, a file name or an item: control and bidi characters are spelled out."""
    flat = " ".join(message.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in flat)


def _drop_output() -> None:
    """Nobody can read stdout any more; what is still buffered must not fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

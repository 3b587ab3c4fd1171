"""The command line: one module per command group. Parse, call, print; no logic.

`main` is the only place where an error becomes a line on stderr and an exit code.
"""

from __future__ import annotations

import os
import sys

from evalkit.errors import EvalkitError, Interrupted


def main() -> None:
    """Entry point of `evalkit`."""
    from evalkit.cli.app import app

    try:
        app(prog_name="evalkit")
    except EvalkitError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; the same command resumes", Interrupted.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    sys.stdout.flush()
    print(f"evalkit: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)

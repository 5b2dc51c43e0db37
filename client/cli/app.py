# SPDX-License-Identifier: Apache-2.0
"""``perdure``: the commands put together, and how it ends.

Commands import Temporal's SDK only when they run: loading it takes longer than all that ``--help`` or ``validate`` do.
"""

from __future__ import annotations

import errno
import logging
import sys
import traceback
from collections.abc import Sequence
from typing import Final, Never

import typer

from client.cli import console
from client.cli.commands import apply, change, describe, get, get_hosts, host, stack, validate, wait
from client.cli.exits import Exit, of_error

EPILOGUE: Final = (
    "Exit codes: 0 done, 1 refused or failed for good, 2 wrong use or invalid manifest, 3 not found, 4 conflict or stale, "
    "5 Temporal unreachable or no worker, 6 timed out, 7 accepted and retrying, 130 interrupted."
)

_WORDS: Final = (("Value error, ", ""), ("Input should be", "it must be"))
"""What the parser says, and what we say."""

app = typer.Typer(
    name="perdure",
    help="Keeps the containers of many hosts as their manifests say, and never stops trying.",
    epilog=EPILOGUE,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for module in (stack, apply, get, get_hosts, describe, wait, change, host, validate):
    module.register(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Never raises but for what nobody foresaw."""
    try:
        code = int(app(list(arguments), prog_name="perdure", standalone_mode=False) or Exit.DONE)
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        code = Exit.INTERRUPTED
    except Exception as error:
        if isinstance(error, PermissionError) and error.filename is not None:
            console.error(f"{error.filename}: {error.strerror}", "Act as its owner, or choose another PERDURE_HOME.")
            return Exit.REFUSED
        if isinstance(error, console.NotWritten):
            console.error(str(error), "Send it elsewhere; `perdure get workloads` shows what was done.")
            return Exit.REFUSED
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = error.filename or "a file, or standard output, cannot be written"
            console.error(f"{where}: {error.strerror}", "Make room, then do it again.")
            return Exit.REFUSED
        if (foreseen := of_error(error)) is None:
            raise
        _tell(error)
        return foreseen
    if code == Exit.INTERRUPTED:
        console.note("interrupted")
    return code


def main() -> Never:
    """Entry point of the console script."""
    console.open_closed()
    logging.getLogger().addHandler(logging.NullHandler())  # a command tells by itself what went wrong
    code: int = Exit.REFUSED
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - the last place where it can be told
        traceback.print_exc()
        console.error("this is a fault of perdure", "Please report it with the lines above.")
    finally:
        console.end(code)


def _usage(error: typer.TyperException) -> int:
    """Wrong use, said in our way."""
    message = error.format_message().rstrip(".")
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    if message.startswith("Usage: "):  # a group without a command: the message is its help
        console.note(message)
        return Exit.USAGE
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "perdure"
    console.error(message[:1].lower() + message[1:], f"See `{command} --help`.")
    return Exit.USAGE


def _tell(error: Exception) -> None:
    from client.manifests import ManifestError

    if isinstance(error, ManifestError):
        for problem in error.problems:
            console.error(str(problem), problem.hint)
    else:
        console.error(str(error), getattr(error, "hint", ""))


if __name__ == "__main__":
    main()

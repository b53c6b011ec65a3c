"""The command line: which commands there are, and how every one of them reports a failure.

Each command module declares its options and imports what does the work only when it is run, so that ``--help`` and
the small commands start at once.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from mcp_connections import __version__
from mcp_connections.cli.bridge import bridge
from mcp_connections.cli.check import check
from mcp_connections.cli.crd import crd
from mcp_connections.cli.failure import FAILED, CommandError
from mcp_connections.cli.operator import operator
from mcp_connections.cli.plan import plan
from mcp_connections.cli.proxy import proxy
from mcp_connections.cli.serve import serve
from mcp_connections.cli.status import status

PROGRAM = "mcp-connections"
TRACEBACK = "MCP_CONNECTIONS_TRACEBACK"
"""Environment variable that lets an unexpected failure end in a traceback."""

app = typer.Typer(
    name=PROGRAM,
    help="Many MCP servers behind one endpoint, declared and operated the Kubernetes way.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (serve, plan, status, check, crd, operator, proxy, bridge):
    app.command()(command)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> NoReturn:
    """Run the command in ``sys.argv`` and exit: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    # Without a handler Python writes the warnings of libraries to stderr; commands that log set up a real one.
    logging.getLogger().addHandler(logging.NullHandler())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show must not end the command
    try:
        code = app(standalone_mode=False, prog_name=PROGRAM)
    except CommandError as error:
        code = _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        code = _fail(f"{_sentence(error.format_message())} See '{_path(error)} --help'.", error.exit_code)
    except typer.Abort:
        code = 130
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing to say, and nowhere to say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        code = _fail(f"unexpected {type(error).__name__}: {error}. Please report it; {TRACEBACK}=1 shows where.")
    sys.exit(code if isinstance(code, int) else 0)


def _sentence(message: str) -> str:
    return message if message.endswith(("?", "!")) else f"{message.rstrip('.')}."


def _path(error: typer.TyperException) -> str:
    """The command whose options the error is about."""
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else PROGRAM


def _fail(message: str, code: int = FAILED) -> int:
    typer.echo(f"{PROGRAM}: {message}", err=True)
    return code

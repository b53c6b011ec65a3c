"""``mcp-connections crd``: the CustomResourceDefinitions, as YAML on stdout or as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcp_connections.cli.failure import CommandError


def crd(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write one file per resource into DIR.")
    ] = None,
) -> None:
    """Print or write the CustomResourceDefinitions."""
    from mcp_connections.api.crd import render

    files = render()
    if output is None:
        typer.echo("---\n".join(files.values()), nl=False)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (output / name).write_text(text, encoding="utf-8")
            typer.echo(f"wrote {output / name}")
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror}. Choose another --output.") from error

"""Errors of the places where input and index lie, told in one line by every command."""

from __future__ import annotations

from typing import Any

import click

from graphrag_assets.cli.output import fail


class Commands(click.Group):
    """A group whose commands end with a message where a place cannot be used."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a place that cannot be used ends it with exit code 1."""
        from graphrag_assets.input.folder import InputError
        from graphrag_assets.storage.filesystem import StorageError

        try:
            return super().invoke(ctx)
        except (StorageError, InputError) as error:
            fail(str(error))
        except (PermissionError, NotADirectoryError) as error:
            fail(f"{error.filename or 'a file'} cannot be read: {error.strerror or error}")

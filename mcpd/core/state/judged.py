"""What is known of a server without asking it, as clients may get it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mcpd.core.definitions.definitions import Definitions
from mcpd.core.upstream.known import Known


def judged(
    definitions: Definitions, known: Known, fresh: Collection[tuple[str, str]] = ()
) -> Known:
    """Return what is known of a launch as clients get it.

    ``fresh`` are the kinds and names of definitions that were approved just now.
    """
    served, said = definitions.served, known.introduction
    if said is not None:
        text = served.instructions_again("", said.instructions)
        said = msgspec.structs.replace(said, instructions=text)
    return known._replace(
        introduction=said,
        catalog=served.recalled_catalog("", known.catalog, fresh),
        others=served.recalled_catalog("", known.others, fresh),
        of_clients={
            key: served.recalled_catalog(key, each, fresh) for key, each in known.of_clients.items()
        },
    )

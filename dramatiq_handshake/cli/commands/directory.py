"""``dramatiq-handshake directory``: which workflows exist in this deployment."""

from __future__ import annotations

import json as json_module

from dramatiq_handshake.cli.options import DEFAULT_PREFIX, Json, Namespace, Prefix, Url, open_engine
from dramatiq_handshake.cli.output import console, print_json
from dramatiq_handshake.cli.tables import directory_notes, directory_table
from dramatiq_handshake.cli.text import visible

__all__ = ["directory"]


def directory(
    *, url: Url = None, prefix: Prefix = DEFAULT_PREFIX, namespace: Namespace = None, json: Json = False
) -> None:
    """Which workflows exist, and on whose word.

    Where live workers disagree is shown, not merged away; an empty list says why it is empty.
    """
    with open_engine(url, prefix, namespace) as engine:
        answer = engine.workflow_directory()
    if json:
        print_json(json_module.dumps(answer.model_dump(mode="json"), indent=2))
        return
    out = console()
    if answer.workflows:
        out.print(directory_table(answer))
    for note in directory_notes(answer):
        out.print(note)
    out.print(visible(answer.detail, 1_000))

"""The directory's answer in a sentence: an empty list has several honest meanings."""

from __future__ import annotations

from collections.abc import Sequence

from dramatiq_handshake.decide.directory_models import Evidence, OtherPartition, WorkflowEntry

__all__ = ["detail_of"]

_UNSUPPORTED = "There is no fleet registry to ask: configure a Redis or Valkey, and workers will appear here."
_NOTHING_LIVE = "No worker is live: start one, or look whether its prefix and registry are these."
_NOTHING_ANNOUNCED = (
    "Workers are live but announce no workflow: "
    "they run steps only, or lack the module that declares the actors."
)
_OBSERVED = (
    "An observed entry is named after a queue that somebody consumes without announcing anything; "
    "it can't be called by name."
)


def detail_of(
    *,
    workflows: Sequence[WorkflowEntry] = (),
    other_partitions: Sequence[OtherPartition] = (),
    live: bool = False,
    invalid: int = 0,
    namespace: str | None = None,
    supported: bool = True,
) -> str:
    """Say what the directory holds and what a reader might miss in it.

    Args:
        workflows: Its entries.
        other_partitions: Who is live where the asking engine does not route to.
        live: Whether anybody at all is live, readable and of whatever partition.
        invalid: How many advertisements could not be read.
        namespace: The tenant that asks; `None` is an operator.
        supported: Whether there is a registry to ask.
    """
    if not supported:
        return _UNSUPPORTED
    sentences = [_listed(workflows)] if workflows else []
    if not workflows and not other_partitions:
        sentences.append(_NOTHING_ANNOUNCED if live else _NOTHING_LIVE)
    if any(entry.evidence is Evidence.OBSERVED for entry in workflows):
        sentences.append(_OBSERVED)
    disagreeing = [entry.key for entry in workflows if entry.disagreements]
    if disagreeing:
        sentences.append(
            f"Live workers disagree on {', '.join(disagreeing)}: resolve that before calling them."
        )
    if other_partitions:
        names = ", ".join(one.partition or '""' for one in other_partitions)
        tenant = "the default partition" if not namespace else f"partition {namespace!r}"
        sentences.append(f"Workers are live on other partitions ({names}); this engine routes to {tenant}.")
    if invalid:
        sentences.append(
            f"{invalid} advertisement(s) could not be read and were skipped (descriptor.invalid)."
        )
    return " ".join(sentences)


def _listed(workflows: Sequence[WorkflowEntry]) -> str:
    declared = sum(entry.evidence is Evidence.DECLARED for entry in workflows)
    observed = len(workflows) - declared
    counts = [f"{declared} declared"] if declared else []
    counts += [f"{observed} observed"] if observed else []
    return f"{' and '.join(counts)} workflow(s)."

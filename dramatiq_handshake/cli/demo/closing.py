"""The last chapters: what exists in this deployment, and what the ledger says of the whole story."""

from __future__ import annotations

from dramatiq_handshake.cli.demo.cast import LAPTOP
from dramatiq_handshake.cli.demo.ledger import BOOTED, RAN, SENT
from dramatiq_handshake.cli.demo.pictures import books
from dramatiq_handshake.cli.demo.stage import Stage
from dramatiq_handshake.cli.tables import directory_notes, directory_table
from dramatiq_handshake.cli.text import listed
from dramatiq_handshake.decide.directory_models import DisagreementAxis, WorkflowDirectory
from dramatiq_handshake.engine import HandshakeEngine

__all__ = ["the_books", "what_exists_here"]

_OWN_TENANT = "default"


def what_exists_here(stage: Stage) -> None:
    """The directory: what is declared, where workers disagree, who lives next door."""
    tell = stage.narrator
    tell.say("Stated by the processes that run it, never guessed. This engine sees its own tenant:")
    tell.code(f'>>> HandshakeEngine("redis://…", namespace="{_OWN_TENANT}").workflow_directory()')
    with HandshakeEngine(stage.url, namespace=_OWN_TENANT) as engine:
        directory = engine.workflow_directory()
    tell.show(directory_table(directory, name=stage.name_of))
    for note in directory_notes(directory, name=stage.name_of):
        tell.say(note)
    _check_declared(stage, directory)
    _check_disagreement(stage, directory)
    _check_partition(stage, directory)


def the_books(stage: Stage) -> None:
    """Every message ran exactly once, and nothing went wrong behind the scenes."""
    tell = stage.narrator
    sent, ran = stage.ledger.entries(SENT), stage.ledger.entries(RAN)
    tell.show(books(sent, ran))
    times = {message.message_id: 0 for message in sent}
    for run in ran:
        times[run.message_id] = times.get(run.message_id, 0) + 1
    wrong = [message.actor for message in sent if times[message.message_id] != 1]
    tell.check(
        not wrong and len(times) == len(sent),
        f"{len(sent)} messages were sent, and each ran exactly once",
        f"not run exactly once: {listed(wrong, ', ')}",
    )
    tell.check(
        not any(run.process == LAPTOP.name for run in ran),
        f"none ran on {LAPTOP.name}, which belongs to another tenant",
    )
    dead, errors = stage.dead_letters(), stage.errors_logged()
    tell.check(
        not dead and not errors,
        "no dead letters, and no worker logged an error",
        f"{dead} dead letter(s), {len(errors)} error(s) logged: {listed(errors, '; ', most=2, none='')}",
    )


def _check_declared(stage: Stage, directory: WorkflowDirectory) -> None:
    wrote: dict[str, set[str]] = {}
    for entry in stage.ledger.entries(BOOTED):
        for actor in entry.actors if entry.process != LAPTOP.name else ():
            wrote.setdefault(actor, set()).add(entry.process)
    says = {
        entry.name: {stage.name_of(instance) for instance in entry.instances} for entry in directory.workflows
    }
    ran_elsewhere = [
        run.actor for run in stage.ledger.entries(RAN) if run.process not in says.get(run.actor, set())
    ]
    stage.narrator.check(
        wrote == says and not ran_elsewhere,
        "each workflow is declared by exactly those processes that wrote that they can run it, "
        "and ran nowhere else",
        f"the ledger says {_who(wrote)}; the directory says {_who(says)}",
    )


def _check_disagreement(stage: Stage, directory: WorkflowDirectory) -> None:
    found = [
        entry.key
        for entry in directory.workflows
        for one in entry.disagreements
        if one.axis is DisagreementAxis.ORIGIN
    ]
    stage.narrator.check(
        found == ["greet@1"],
        "greet@1 moved to another package and kept its version: both claims are kept, and none is picked",
        f"expected a disagreement on the origin of greet@1, got {listed(found, ', ', none='none')}",
    )


def _check_partition(stage: Stage, directory: WorkflowDirectory) -> None:
    others = {
        one.partition: {stage.name_of(instance) for instance in one.instances}
        for one in directory.other_partitions
    }
    stage.narrator.check(
        others == {LAPTOP.namespace: {LAPTOP.name}},
        f"{LAPTOP.name} is reported as live on another partition; none of its workflows is listed here",
        f"expected {LAPTOP.name} on partition {LAPTOP.namespace}, got {listed(others, ', ', none='none')}",
    )


def _who(announcers: dict[str, set[str]]) -> str:
    texts = [f"{actor} by {', '.join(sorted(names))}" for actor, names in sorted(announcers.items())]
    return listed(texts, ", ", none="nothing")

"""The engine's answers as tables: nothing left out, nothing hostile let through."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from dramatiq_handshake.cli.tables import (
    blocked_notes,
    blocked_table,
    directory_notes,
    directory_table,
    fleet_notes,
    fleet_table,
)
from dramatiq_handshake.decide.directory_models import (
    Disagreement,
    DisagreementAxis,
    Evidence,
    InvalidAdvertisement,
    OtherPartition,
    WorkflowDirectory,
    WorkflowEntry,
)
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine import (
    AnnouncedActor,
    BlockedNeedReport,
    BlockedReport,
    ControlPlaneReport,
    FleetReport,
    LackReport,
    NearestWorker,
    UnlistedBacklog,
    WorkerReport,
)

EVIL = "evil\x1b[2J\x1b]0;title\x07\r\nname\u202e[bold]:smile:"
INVALID = InvalidAdvertisement(source=EVIL, field=EVIL, expected=EVIL, got=EVIL)


def printed(*pictures: RenderableType, width: int = 200) -> str:
    """What a command would print, without a terminal."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, markup=False, emoji=False, highlight=False)
    for picture in pictures:
        console.print(picture)
    return stream.getvalue()


def rows(text: str) -> list[list[str]]:
    """The cells of each line of a table."""
    return [[cell for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def worker(instance: str, *capabilities: str, **fields: object) -> WorkerReport:
    """A worker's row."""
    known = {"outcome": Outcome.COMPATIBLE, "tokens": ("ml",), "capabilities": capabilities, "protocol": 1}
    return WorkerReport(instance_id=instance, **(known | fields))  # type: ignore[arg-type]  # by name


def need(**fields: object) -> BlockedNeedReport:
    """A blocked need."""
    known = {
        "need_id": "4711",
        "queue": "ml",
        "actor": "train",
        "version": "2",
        "requires": ("gpu",),
        "code": Code.CAPABILITY_UNAVAILABLE.value,
        "reason": "blocked: no compatible worker (requires gpu)",
        "place": "ml.requires.gpu",
        "since_ms": 0,
        "age_ms": 65_000,
        "messages": 12,
    }
    return BlockedNeedReport(**(known | fields))  # type: ignore[arg-type]  # by name


def test_a_worker_is_shown_with_what_it_lacks_and_how_busy_it_is() -> None:
    fleet = FleetReport(
        workers=(
            worker(
                "py-1",
                "saga",
                outcome=Outcome.DEGRADED,
                missing=("gpu",),
                state="draining",
                threads=8,
                in_flight=3,
                last_beat_age_ms=2_000,
                uptime_ms=65_000,
                actors=(AnnouncedActor(name="train", version="2"), AnnouncedActor(name="fit", step=True)),
            ),
        )
    )
    text = printed(fleet_table(fleet))
    for shown in ("py-1", "degraded", "lacks gpu", "train@2", "fit", "saga", "ml"):
        assert shown in text
    assert "draining, 3 in flight, 8 threads, up 1 min 5 s, beat 2 s ago" in text


def test_what_every_worker_has_is_told_once_and_not_row_by_row() -> None:
    fleet = FleetReport(workers=(worker("py-1", "retries", "gpu"), worker("py-2", "retries")))
    assert "retries" not in printed(fleet_table(fleet))
    assert "gpu" in printed(fleet_table(fleet))
    assert list(fleet_notes(fleet)) == ["Every worker also has: retries."]


def test_a_single_worker_keeps_its_capabilities() -> None:
    fleet = FleetReport(workers=(worker("py-1", "retries"),))
    assert "retries" in printed(fleet_table(fleet))
    assert list(fleet_notes(fleet)) == []


def test_workers_of_other_kinds_are_told_apart() -> None:
    fleet = FleetReport(
        workers=(
            worker("nest-1", foreign=True, sdk="nestjs", sdk_version="0.62.0"),
            worker("node-7", foreign=True, legacy=True, capabilities=("saga",)),
            worker("py-9", outcome=Outcome.INCOMPATIBLE, reason="speaks wire protocol 2, this one 1"),
            worker("py-8", outcome=Outcome.INCOMPATIBLE, code=Code.DESCRIPTOR_INVALID, reason="a long story"),
        )
    )
    text = printed(fleet_table(fleet))
    assert "SDK nestjs 0.62.0" in text
    assert "unknown SDK" in text
    assert "v1 baseline" in text
    assert "speaks wire protocol 2, this one 1" in text
    assert "descriptor.invalid" in text


def test_the_notes_tell_of_control_planes_and_unreadable_advertisements() -> None:
    planes = (
        ControlPlaneReport(instance_id="web-1", outcome=Outcome.COMPATIBLE, capabilities=("gpu",)),
        ControlPlaneReport(instance_id="web-2", outcome=Outcome.INCOMPATIBLE, reason="speaks 2"),
    )
    invalid = InvalidAdvertisement(source="ml:py-1", field="runtime", expected="node or python", got="'go'")
    assert list(fleet_notes(FleetReport(control_planes=planes, invalid=(invalid,)))) == [
        "Control plane web-1: compatible, whose actors require gpu.",
        "Control plane web-2: incompatible (speaks 2).",
        "descriptor.invalid: advertisement ml:py-1 skipped: runtime: expected node or python, got 'go'",
    ]


def test_a_blocked_need_is_shown_with_its_reason_and_who_came_nearest() -> None:
    nearest = NearestWorker(
        worker="c1", lacks=(LackReport(kind="capability", wanted="gpu", reason="lacks gpu"),)
    )
    text = printed(
        blocked_table(BlockedReport(needs=(need(nearest=nearest), need(actor=None, version=None))))
    )
    assert ["train@2", "12", "1 min 5 s", "capability.unavailable"] in [
        [cell.strip() for cell in row] for row in rows(text)
    ]
    assert "blocked: no compatible worker (requires gpu)" in text
    assert "the nearest worker lacks gpu" in text
    assert "kept in ml.requires.gpu, need 4711" in text
    assert "on queue ml" in text
    assert "any actor" in text
    assert "no worker was live on this queue" in text


def test_the_notes_tell_what_is_blocked_and_what_else_nobody_takes() -> None:
    left = UnlistedBacklog(queue="ml", place="ml", messages=3, reason="3 message(s) in 'ml', which nobody")
    blocked = "24 message(s) blocked for 2 need(s), the oldest for 2 min."
    needs = (need(), need(age_ms=120_000))
    both = list(blocked_notes(BlockedReport(needs=needs, total=24, unlisted=(left,))))
    assert both[0].startswith(blocked)
    assert both[1:] == ["Unlisted: 3 message(s) in 'ml', which nobody."]
    assert list(blocked_notes(BlockedReport(unlisted=(left,)))) == both[1:]
    assert list(blocked_notes(BlockedReport())) == ["Nothing is blocked."]


def test_an_entry_of_the_directory_is_shown_with_every_claim() -> None:
    directory = WorkflowDirectory(
        supported=True,
        workflows=(
            WorkflowEntry(
                evidence=Evidence.DECLARED,
                key="train@2",
                name="train",
                version="2",
                groups=("ml", "ml-2"),
                origins=("vision",),
                requires=(("gpu", "saga"), ()),
                instances=("a", "b", "c", "d"),
                disagreements=(Disagreement(axis=DisagreementAxis.GROUP, values=("ml", "ml-2")),),
            ),
            WorkflowEntry(evidence=Evidence.OBSERVED, key="old", name="old", groups=("old",)),
        ),
        other_partitions=(OtherPartition(partition="ada", groups=("ml@ada",), instances=("py-9",)),),
        invalid=(InvalidAdvertisement(source="s", field="f", expected="e", got="g"),),
    )
    text = printed(directory_table(directory, name=str.upper))
    for shown in ("train@2", "declared", "observed queue", "ml-2", "vision", "gpu+saga", "nothing", "A", "C"):
        assert shown in text
    assert "and 1 more" in text
    assert list(directory_notes(directory, name=str.upper)) == [
        "Disagreement on train@2: its workers state more than one group (ml / ml-2).",
        "Another partition, 'ada': PY-9 on ml@ada.",
        "descriptor.invalid: advertisement s skipped: f: expected e, got g",
    ]


def test_hostile_names_are_harmless_in_every_table() -> None:
    """No control character but the line ends of the table itself, and no markup."""
    fleet = FleetReport(
        workers=(
            worker(
                EVIL,
                EVIL,
                tokens=(EVIL,),
                missing=(EVIL,),
                actors=(AnnouncedActor(name=EVIL, version=EVIL),),
                state=EVIL,
                foreign=True,
                sdk=EVIL,
                sdk_version=EVIL,
            ),
            worker("x", EVIL, outcome=Outcome.INCOMPATIBLE, reason=EVIL),
        ),
        control_planes=(
            ControlPlaneReport(
                instance_id=EVIL, outcome=Outcome.INCOMPATIBLE, reason=EVIL, capabilities=(EVIL,)
            ),
        ),
        invalid=(INVALID,),
    )
    lacks = (LackReport(kind=EVIL, wanted=EVIL, reason=EVIL),)
    blocked = BlockedReport(
        needs=(
            need(
                need_id=EVIL,
                queue=EVIL,
                actor=EVIL,
                version=EVIL,
                code=EVIL,
                reason=EVIL,
                place=EVIL,
                nearest=NearestWorker(worker=EVIL, lacks=lacks),
            ),
        ),
        unlisted=(UnlistedBacklog(queue=EVIL, place=EVIL, messages=1, reason=EVIL),),
    )
    directory = WorkflowDirectory(
        supported=True,
        workflows=(
            WorkflowEntry(
                evidence=Evidence.DECLARED,
                key=EVIL,
                name=EVIL,
                groups=(EVIL,),
                origins=(EVIL,),
                requires=((EVIL,),),
                instances=(EVIL,),
                disagreements=(Disagreement(axis=DisagreementAxis.ORIGIN, values=(EVIL, EVIL)),),
            ),
        ),
        other_partitions=(OtherPartition(partition=EVIL, groups=(EVIL,), instances=(EVIL,)),),
        invalid=(INVALID,),
    )
    for width in (40, 80, 200):
        text = printed(
            fleet_table(fleet),
            *fleet_notes(fleet),
            blocked_table(blocked),
            *blocked_notes(blocked),
            directory_table(directory),
            *directory_notes(directory),
            width=width,
        )
        assert text.replace("\n", "").isprintable()
    assert "[bold]:smile:" in text

"""The first chapters: who is live, what runs, what is blocked and why, and how it resumes.

Each claim is compared with the ledger that the actors themselves write, or with the broker's own keys; what
the library says is shown beside it, and must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dramatiq_handshake.cli.demo.cast import CPU, GPU, LAPTOP, OLD
from dramatiq_handshake.cli.demo.ledger import SENT, Entry
from dramatiq_handshake.cli.demo.pictures import blocked_card, fleet_table, timeline
from dramatiq_handshake.cli.demo.stage import Stage
from dramatiq_handshake.cli.tables.fleet import common_capabilities
from dramatiq_handshake.cli.text import listed
from dramatiq_handshake.decide.events import Code
from dramatiq_handshake.decide.negotiate import Outcome
from dramatiq_handshake.engine import BlockedNeedReport, WorkerReport
from dramatiq_handshake.engine.report import duration_text

__all__ = [
    "a_capable_worker_comes",
    "nobody_has_a_gpu",
    "nobody_knows_the_actor",
    "who_is_live",
    "work_that_runs",
]

#: How long what should follow at once may take on a busy machine.
PROMPT_S = 4.0
#: How long blocked work may take to resume there; it takes milliseconds.
RESUME_S = 6.0
GPU_CAPABILITY = "gpu"


def who_is_live(stage: Stage) -> None:
    """Three workers advertise, each something else."""
    tell, roles = stage.narrator, (CPU, OLD, LAPTOP)
    tell.say("A fleet is never one version. These are started, each a process of its own:")
    for role in roles:
        tell.say(f"{role.name}: {role.what}")
        tell.code(f"$ {stage.cast.command(role)}")
    booted = stage.raise_curtain(roles)
    stage.wait(lambda: stage.live().keys() == booted.keys(), PROMPT_S)
    live = stage.live()
    tell.show(fleet_table(live, roles))
    tell.say(
        "So says engine.fleet(). Each advertised itself, and was negotiated against this producer, whose "
        "actors ask for a GPU somewhere; degraded means that a worker gets all work but that."
    )
    if common := common_capabilities(list(live.values())):
        tell.say(f"What all of them can do: {listed(common, ', ')}.")
    tell.check(
        live.keys() == booted.keys(),
        f"live are {_and(live)}: exactly those who wrote in the ledger that they consume",
        f"{_and(booted)} wrote in the ledger that they consume; live, by the registry: {_and(live)}",
    )
    differing = [name for name in booted if not _agree(live.get(name), booted[name])]
    tell.check(
        not differing,
        "each is listed with the queues, capabilities and actors that it wrote down itself",
        f"not listed as they wrote themselves: {_and(differing)}",
    )


def work_that_runs(stage: Stage) -> None:
    """What a live worker can run reaches it as ever."""
    tell = stage.narrator
    tell.code('>>> greet.send("Ada")')
    tell.say("old announces greet and consumes its queue: the message is dispatched as in plain Dramatiq.")
    _check_ran_on(stage, stage.send("greet", "Ada"), OLD.name)


def nobody_has_a_gpu(stage: Stage) -> None:
    """A message that requires what nobody has is blocked."""
    tell = stage.narrator
    tell.code('@dramatiq.actor(queue_name="ml", requires=["gpu"], version="2")')
    tell.code("def train(dataset): ...")
    tell.code('>>> train.send("mnist")')
    tell.say(
        "Plain Dramatiq would hand it to cpu, which can't run it. Here it is negotiated before it is "
        "dispatched. (laptop has a GPU, but lives in a namespace of its own: never a candidate.)"
    )
    _check_blocked(stage, "train", stage.send("train", "mnist"))
    tell.say("engine.blocked() has it all: both descriptors, and per live worker what it lacks.")


def nobody_knows_the_actor(stage: Stage) -> None:
    """A message for an actor of a newer release is blocked in a lane of its own."""
    tell = stage.narrator
    tell.code('>>> added_later.send("order 7")')
    tell.say(
        "Only today's release has this actor, but old consumes its queue. Plain Dramatiq would let old take "
        "the message, and dead-letter it. Here it waits in a lane of its own."
    )
    _check_blocked(stage, "added_later", stage.send("added_later", "order 7"))


def a_capable_worker_comes(stage: Stage) -> None:
    """A worker that can comes up, and the blocked work runs at once."""
    tell = stage.narrator
    waiting = [entry for entry in stage.ledger.entries(SENT) if stage.run_of(entry.message_id) is None]
    tell.say(f"{GPU.name}: {GPU.what}")
    tell.code(f"$ {stage.cast.command(GPU)}")
    booted = stage.raise_curtain([GPU])[GPU.name]
    with tell.waiting("waiting for the blocked work"):
        stage.wait(lambda: all(stage.run_of(sent.message_id) for sent in waiting), RESUME_S)
    runs = [(sent, run) for sent in waiting if (run := stage.run_of(sent.message_id)) is not None]
    tell.show(timeline(booted, runs))
    for sent in waiting:
        run = stage.run_of(sent.message_id)
        if run is None:
            since = duration_text(round(RESUME_S * 1000))
            tell.check(False, f"{sent.actor} has not run {since} after {GPU.name} came up: it did not resume")
            continue
        tell.check(
            run.process == GPU.name,
            f"{sent.actor} ran on {run.process}, {run.ms_after(booted):.1f} ms after that worker appeared; "
            "nobody sent it again",
            f"{sent.actor} ran on {run.process}, which can't run it",
        )
    cleared = stage.wait(
        lambda: not stage.engine.blocked().needs, PROMPT_S if len(runs) == len(waiting) else 0
    )
    tell.check(cleared, "nothing is listed as blocked any more", "work is still listed as blocked")


# -- checks ---------------------------------------------------------------------------------------


def _agree(worker: WorkerReport | None, wrote: Entry) -> bool:
    """Whether a worker is listed as it wrote down itself, and negotiated accordingly."""
    if worker is None:
        return False
    equipped = GPU_CAPABILITY in wrote.capabilities
    return (
        list(worker.tokens) == list(wrote.queues)
        and {actor.name for actor in worker.actors} == set(wrote.actors)
        and (GPU_CAPABILITY in worker.capabilities) == equipped
        and worker.outcome is (Outcome.COMPATIBLE if equipped else Outcome.DEGRADED)
    )


def _check_ran_on(stage: Stage, message_id: str, name: str, meanwhile: str = "") -> None:
    run = stage.run_of(message_id, PROMPT_S)
    if run is None:
        stage.narrator.check(False, f"it has not run within {PROMPT_S:.0f} s")
        return
    (sent,) = stage.ledger.entries(SENT, message_id=message_id)
    stage.narrator.check(
        run.process == name,
        f"{meanwhile}{run.actor} ran on {run.process}, {run.ms_after(sent):.1f} ms after it was sent",
        f"{run.actor} ran on {run.process}, not on {name}",
    )


def _check_blocked(stage: Stage, actor: str, message_id: str) -> None:
    tell = stage.narrator
    need = stage.blocked_need(message_id)
    if need is not None:
        tell.show(blocked_card(need, stage.consumers_of(need.queue)))
    # Whoever might run it wrongly had all the time that this took.
    _check_ran_on(stage, stage.send("greet", "Bob"), OLD.name, "other work goes on: ")
    run = stage.run_of(message_id)
    tell.check(
        run is None and need is not None and need.code == Code.CAPABILITY_UNAVAILABLE,
        f"nobody ran {actor}, and it is listed as blocked: {Code.CAPABILITY_UNAVAILABLE}",
        f"{actor} ran on {run.process}" if run else f"{actor} is not listed as blocked",
    )
    _check_kept(stage, actor, need)


def _check_kept(stage: Stage, actor: str, need: BlockedNeedReport | None) -> None:
    kept = 0 if need is None else stage.kept_in(need.place)
    dead = stage.dead_letters()
    stage.narrator.check(
        kept == 1 and dead == 0,
        f"it is kept: 1 message in {need.place if need else ''}, none in the dead-letter queues",
        f"{actor} is not kept: {kept} message(s) in its lane, {dead} in the dead-letter queues",
    )


def _and(names: Iterable[str] | Mapping[str, object]) -> str:
    *most, last = sorted(names) or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last

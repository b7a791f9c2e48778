"""What actors declare and what messages carry: reading, checking and stamping our options.

A message that needs nothing carries nothing of ours. Version, requirements and a sender's major other
than 1 ride in one dictionary, ``message.options["handshake"]``, which is replaced and never mutated:
`Message.copy` shares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dramatiq_handshake.decide.need import Need, base_of, check_queue_name
from dramatiq_handshake.dispatch.errors import DeclarationError
from dramatiq_handshake.errors import ConfigurationError

if TYPE_CHECKING:
    from dramatiq import Actor, Message, MessageProxy

__all__ = [
    "ACTOR_OPTIONS",
    "MESSAGE_OPTION",
    "ActorProfile",
    "blocked_need_id",
    "capability_names",
    "marked_as_blocked",
    "need_of",
    "profile_of",
    "stamped",
]

ACTOR_OPTIONS = frozenset({"requires", "version", "accepts", "origin", "step"})
MESSAGE_OPTION = "handshake"


@dataclass(frozen=True, slots=True)
class ActorProfile:
    """What an actor's declaration says about who may run it.

    Attributes:
        requires: Capabilities that its worker must have.
        version: The version it is, and asks for when it is sent; ``None`` states nothing.
        accepts: Further versions of its messages that it can run.
        origin: The package that declares it.
        step: Whether it is reached only from other actors, and so stays out of the directory.
    """

    requires: frozenset[str] = frozenset()
    version: str | None = None
    accepts: frozenset[str] = frozenset()
    origin: str | None = None
    step: bool = False

    def runs(self, version: str | None) -> bool:
        """Whether a message that asks for `version` is one this actor can run; silence matches anything."""
        stated = self.accepts if self.version is None else self.accepts | {self.version}
        return version is None or not stated or version in stated


def capability_names(value: object, where: str) -> frozenset[str]:
    """Read a list of capability names.

    Args:
        value: A collection of non-empty texts.
        where: What it was given to, for the message of the error.

    Raises:
        DeclarationError: It is a bare text, no collection, or holds something that is not a text.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise DeclarationError(
            f"{where}: expected a list of capability names such as ['gpu'], got {value!r}; "
            "put the name into a list"
        )
    names = list(value)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise DeclarationError(
                f"{where}: expected every capability to be a non-empty text, got {name!r}; "
                "name it as the workers advertise it"
            )
    return frozenset(names)


def _names_or_none(value: object, where: str) -> frozenset[str]:
    return frozenset() if value is None else capability_names(value, where)


def _text_or_none(value: object, where: str) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise DeclarationError(f"{where}: expected a non-empty text or None, got {value!r}; write it in quotes")


def profile_of(actor: Actor[Any, Any]) -> ActorProfile:
    """Check an actor's declaration and read our options from it.

    Raises:
        DeclarationError: A name or an option is not what it must be; the message says what to do.
    """
    name, options = actor.actor_name, actor.options
    if ":" in name:
        raise DeclarationError(
            f"actor {name!r}: expected a name without ':', which separates the parts of a registry key; "
            "pass actor_name= without it"
        )
    try:
        check_queue_name(actor.queue_name)
    except ConfigurationError as error:
        raise DeclarationError(f"actor {name!r}: {error}") from None
    step = options.get("step", False)
    if not isinstance(step, bool):
        raise DeclarationError(f"actor {name!r}, step: expected True or False, got {step!r}")
    return ActorProfile(
        requires=_names_or_none(options.get("requires"), f"actor {name!r}, requires"),
        version=_text_or_none(options.get("version"), f"actor {name!r}, version"),
        accepts=_names_or_none(options.get("accepts"), f"actor {name!r}, accepts"),
        origin=_text_or_none(options.get("origin"), f"actor {name!r}, origin"),
        step=step,
    )


def _carried(message: Message[Any] | MessageProxy) -> Mapping[str, Any]:
    carried = message.options.get(MESSAGE_OPTION)
    return carried if isinstance(carried, dict) else {}


def need_of(message: Message[Any] | MessageProxy, profile: ActorProfile | None, *, major: int = 1) -> Need:
    """What a message asks of its worker.

    What rides on the message wins over the message's own options, and those over the actor's declaration
    in this process, which may be of another release than the sender's. Junk a peer put there is ignored.

    Args:
        major: The wire-protocol major of a message that states none: the sender's own, or 1.

    Raises:
        DeclarationError: A ``requires=`` or ``version=`` given to ``send_with_options`` is malformed.
    """
    profile = profile or ActorProfile()
    carried, options = _carried(message), message.options
    requires = carried.get("requires")
    if isinstance(requires, list) and all(isinstance(name, str) for name in requires):
        names = frozenset(requires)
    elif "requires" in options:
        names = _names_or_none(options["requires"], f"message to {message.actor_name!r}, requires")
    else:
        names = profile.requires
    version = carried.get("version")
    if not isinstance(version, str):
        where = f"message to {message.actor_name!r}, version"
        version = _text_or_none(options["version"], where) if "version" in options else profile.version
    protocol = carried.get("protocol")
    return Need(
        queue=base_of(message.queue_name),
        actor=message.actor_name,
        version=version,
        requires=names,
        protocol=protocol if type(protocol) is int else major,
        step=profile.step,
    )


def stamped(message: Message[Any], need: Need) -> Message[Any]:
    """The message with what `need` asks written on it, for processes that know the actor otherwise.

    A note of an earlier blocking goes with it: a message that is enqueued again is planned anew.
    """
    stamp: dict[str, Any] = {}
    if need.requires:
        stamp["requires"] = sorted(need.requires)
    if need.version is not None:
        stamp["version"] = need.version
    if need.protocol != 1:
        stamp["protocol"] = need.protocol
    written: dict[str, Any] = {} if stamp == _carried(message) else {MESSAGE_OPTION: stamp}
    if not isinstance(message.options.get("requires"), list | None):
        # Any collection may be given with a send; the encoder takes a list.
        written["requires"] = sorted(need.requires)
    return message.copy(options=written) if written else message


def marked_as_blocked(message: Message[Any] | MessageProxy, need_id: str) -> Message[Any]:
    """The message with the note under which need the blocked index lists it; its taker clears the entry.

    The id is written down, because a taker of another release may read another need off the same message.
    """
    marked: Message[Any] = message.copy(options={MESSAGE_OPTION: {**_carried(message), "blocked": need_id}})
    return marked


def blocked_need_id(message: Message[Any] | MessageProxy) -> str | None:
    """The id of the need under which the blocked index lists the message, if it says that it is listed."""
    need_id = _carried(message).get("blocked")
    return need_id if isinstance(need_id, str) else None

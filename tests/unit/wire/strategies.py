"""Hypothesis strategies for what stands on the wire, hostile text included."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dramatiq_handshake.wire.descriptor import WorkerDescriptor, parse_descriptor
from dramatiq_handshake.wire.ecmascript import js_number

#: Any text, lone surrogates and astral characters included, as JSON can carry it.
texts = st.text(st.characters(exclude_categories=()), max_size=6)
names = st.sampled_from(["a", "b", "saga", "gpu", "a b", "a,b", "", "\ue000", "\U0001f680", "\ud800", "é"])
numbers = st.one_of(
    st.integers(0, 9), st.integers(-(10**25), 10**25), st.floats(allow_nan=False, allow_infinity=False)
).map(js_number)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
#: Names of fields that no release of ours knows.
unknown_names = st.sampled_from(["color", "x-labels", "instance_id", "tags", "model_config", "größe"])

name_lists = st.lists(names, max_size=5)
majors = st.one_of(st.integers(-1, 4), numbers)


def raw_descriptors(*, unknown: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Descriptors in the contract's shape as raw JSON objects, every optional field present or not.

    Args:
        unknown: Whether fields of a newer SDK occur as well, at every level. They cost most of the
            drawing, so only what is about them asks for them.
    """
    more = {"color": json_values} if unknown else {}
    registrations = st.fixed_dictionaries(
        {"name": names},
        optional={"version": names, "group": names, "requires": name_lists, "origin": names, **more},
    )
    known = st.fixed_dictionaries(
        {"instanceId": names, "runtime": st.sampled_from(["node", "python"])},
        optional={
            "sdk": st.fixed_dictionaries({"name": names, "version": names}, optional=more),
            "protocol": st.fixed_dictionaries(
                {"version": majors, "range": st.tuples(majors, majors).map(list)}
            ),
            "capabilities": name_lists,
            "workflows": name_lists,
            "steps": name_lists,
            "registrations": st.lists(registrations, max_size=4),
            "partition": names,
            "namespace": names,
            "startedAt": numbers,
        },
    )
    if not unknown:
        return known
    extra = st.dictionaries(unknown_names, json_values, max_size=2)
    return st.builds(lambda stated, others: {**others, **stated}, known, extra)


descriptors: st.SearchStrategy[WorkerDescriptor] = raw_descriptors().map(parse_descriptor)

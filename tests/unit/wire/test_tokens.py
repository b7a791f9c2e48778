"""Routing tokens and the tenant they belong to."""

from __future__ import annotations

import pytest
from hypothesis import given

from dramatiq_handshake.wire.tokens import (
    is_default_namespace,
    partition_of_token,
    sanitize_queue_token,
    tenant_group,
)
from tests.unit.wire.strategies import texts


@given(texts)
def test_a_token_never_holds_the_separator_of_registry_keys(name):
    """Each ``:`` becomes ``-``, and nothing else changes."""
    token = sanitize_queue_token(name)
    assert ":" not in token
    assert len(token) == len(name)
    assert sanitize_queue_token(token) == token


@pytest.mark.parametrize("namespace", [None, "", "default"])
def test_the_default_namespace_adds_no_suffix(namespace):
    """Unset, empty and ``default`` are the same tenant: none."""
    assert is_default_namespace(namespace)
    assert tenant_group("ml", namespace) == "ml"
    assert partition_of_token(tenant_group("ml", namespace)) == "default"


@pytest.mark.parametrize("namespace", ["davi-local", " default", "Default", "x@y"])
def test_any_other_namespace_is_a_suffix(namespace):
    """The suffix is taken literally."""
    assert not is_default_namespace(namespace)
    assert tenant_group("ml", namespace) == f"ml@{namespace}"


@pytest.mark.parametrize(
    ("token", "partition"), [("ml", "default"), ("ml@a", "a"), ("ml@a@b", "b"), ("ml@", ""), ("@a", "a")]
)
def test_a_partition_is_what_follows_the_last_at_sign(token, partition):
    """A token without one is of the default partition; an empty suffix is a partition of its own."""
    assert partition_of_token(token) == partition

"""Each test of this folder runs on every kind of store, driven by one fake clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dramatiq_handshake.routing import WorkerDirectory
from dramatiq_handshake.storage import FleetStore
from tests.contract.directories import Directories, MemoryDirectories, RedisDirectories
from tests.contract.harness import PREFIX, Deployment, FakeClock, MemoryDeployment, RedisDeployment
from tests.contract.leaks import leaks


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory_deployment(clock: FakeClock) -> Deployment:
    return MemoryDeployment(clock)


@pytest.fixture
def redis_deployment(clock: FakeClock, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """Fails a test that leaves a key which `docs/keys.md` does not allow."""
    valkey = request.getfixturevalue("valkey")
    deployment = RedisDeployment(clock, valkey)
    yield deployment
    deployment.close()
    assert leaks(valkey, PREFIX) == []


@pytest.fixture(params=["memory", "redis"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    kind: Deployment = request.getfixturevalue(f"{request.param}_deployment")
    return kind


@pytest.fixture
def store(deployment: Deployment) -> FleetStore:
    return deployment.open()


@pytest.fixture
def peer(deployment: Deployment, store: FleetStore) -> FleetStore:
    """The registry as another process sees it."""
    return deployment.open()


@pytest.fixture
def memory_directories(clock: FakeClock) -> Directories:
    return MemoryDirectories(clock)


@pytest.fixture
def redis_directories(clock: FakeClock, request: pytest.FixtureRequest) -> Iterator[Directories]:
    """Fails a test that leaves a key which `docs/keys.md` does not allow."""
    valkey = request.getfixturevalue("valkey")
    directories = RedisDirectories(clock, valkey)
    yield directories
    directories.close()
    assert leaks(valkey, PREFIX) == []


@pytest.fixture(params=["memory", "redis"])
def directories(request: pytest.FixtureRequest) -> Directories:
    kind: Directories = request.getfixturevalue(f"{request.param}_directories")
    return kind


@pytest.fixture
def directory(directories: Directories) -> WorkerDirectory:
    return directories.open()


@pytest.fixture
def other(directories: Directories, directory: WorkerDirectory) -> WorkerDirectory:
    """The directory as another process sees it."""
    return directories.open()

"""The examples do what their texts say, through real worker processes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.support.workers import ROOT, WorkerProcess, clean_environment

pytestmark = pytest.mark.timeout(120)


def test_the_quick_start_blocks_and_resumes(tmp_path: Path, valkey: redis.Redis, valkey_url: str) -> None:
    """Copied into a folder of its own: greet runs, train is blocked, and runs once a GPU is there."""
    shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path)
    environment = {"REDIS_URL": valkey_url}
    plain = WorkerProcess(
        "plain", "quickstart", tmp_path / "plain.log", environment=environment, cwd=tmp_path
    )
    try:
        plain.wait_ready()
        sent = subprocess.run(
            [sys.executable, "-W", "error", "quickstart.py"],
            cwd=tmp_path,
            env=clean_environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert sent.returncode == 0, sent.stderr
        assert "is blocked: no compatible worker (requires gpu)" in sent.stdout
        assert re.search(r"nearest: worker \S+ lacks gpu", sent.stdout)
        assert "kept in ml.requires.gpu" in sent.stdout
        assert "greet on default, declared" in sent.stdout
        plain.wait_output("hello, Ada")
        capable = WorkerProcess(
            "capable",
            "quickstart",
            tmp_path / "capable.log",
            environment=environment | {"DRAMATIQ_HANDSHAKE_CAPABILITIES": "gpu"},
            cwd=tmp_path,
        )
        try:
            capable.wait_output("training on dataset 42", timeout_s=30)
        finally:
            capable.kill9()
        assert "training" not in plain.text
    finally:
        plain.kill9()

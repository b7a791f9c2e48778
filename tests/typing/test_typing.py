"""Users' code is typed: mypy --strict reads the public surface as its users would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workers import ROOT

HERE = Path(__file__).parent
MYPY_S = 240


def _mypy(*files: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    options = ["--strict", "--warn-unreachable", "--no-error-summary", "--python-version", "3.11"]
    # An empty configuration: users don't have ours, nor its plugins.
    options += ["--config-file", "", "--cache-dir", str(cache)]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        cwd=HERE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MYPY_S,
        check=False,
    )


@pytest.mark.timeout(MYPY_S)
def test_users_code_passes_a_strict_type_check() -> None:
    """Right uses pass; each wrong one is refused, or mypy would find its ignore unused."""
    done = _mypy(HERE / "users_code.py", cache=ROOT / ".mypy_cache" / "users")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(MYPY_S)
def test_a_wrong_use_is_refused(tmp_path: Path) -> None:
    """The check above would notice a surface that turned into `Any`."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import dramatiq_handshake\n"
        "engine = dramatiq_handshake.get_engine()\n"
        "engine.no_such_question()\n"
        "key: int = engine.workflow_directory().workflows[0].key\n"
    )
    done = _mypy(wrong, cache=ROOT / ".mypy_cache" / "users")
    assert done.returncode == 1
    assert "wrong.py:3: error" in done.stdout
    assert "wrong.py:4: error" in done.stdout

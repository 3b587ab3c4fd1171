from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.workspace import Workspace, create_workspace

SECRET = "5e" * 32


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return create_workspace(tmp_path / "ws")


@pytest.fixture
def demo_secret(tmp_path: Path) -> Path:
    path = tmp_path / "demo-secret"
    path.write_text(f"DEMO: not secret\n{SECRET}\n")
    return path

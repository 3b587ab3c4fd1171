"""What a run was made with: recorded, never identity."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("evalkit-rl", "aiohttp", "jinja2", "numpy", "polars", "pydantic", "scipy", "jsonschema", "tokenizers")


def environment(root: Path) -> dict[str, Any]:
    """Python, packages, machine, git commit of the workspace with its dirty flag, and the command's arguments."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
        "git": git_state(root),
        "argv": sys.argv[1:],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git_state(root: Path) -> dict[str, Any] | None:
    """Commit and whether tracked files differ from it; None outside a git checkout or without git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

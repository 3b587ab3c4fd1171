from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_engines.support import Lab, as_training_left_it, new_lab, vllm_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the second environment."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.engines)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return new_lab(tmp_path_factory.mktemp("lab") / "ws")


@pytest.fixture
def own_lab(tmp_path: Path) -> Lab:
    """For tests that leave half a run behind."""
    return new_lab(tmp_path / "ws")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_training_left_it(tmp_path_factory.mktemp("training") / "checkpoint-240")


@pytest.fixture(scope="session")
def served(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm_server(checkpoint, tmp_path_factory.mktemp("server") / "log") as model:
        yield model

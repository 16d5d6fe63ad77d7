"""Real servers for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver import StandIn

from .lab import Lab


@pytest.fixture
def driver(tmp_path: Path) -> StandIn:
    """A driver with two devices of 80 GiB."""
    return StandIn(tmp_path / "driver")


@pytest.fixture
def lab(tmp_path: Path, driver: StandIn) -> Iterator[Lab]:
    """A server under the quick policy: warned after 8 s, ended 12 s later."""
    with Lab(tmp_path / "lab", driver=driver) as running:
        yield running

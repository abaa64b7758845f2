"""Options and surroundings of all tests.

`--bless` rewrites the expected blocks of tests/spec and README.md to what is found. Compiled
objects go into pytest's own cache, so that tests neither read nor fill the user's; what captures
came to is kept only where that is tested.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples in every run; `tests.hunt` and `tests.hunt_graphs` are for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="rewrite what the specs expect")


def pytest_configure(config):
    if getattr(config, "cache", None) is not None:
        os.environ.setdefault("TAILOR_CACHE_DIR", str(config.cache.mkdir("objects")))
    os.environ.setdefault("TAILOR_SOUND", "1")
    os.environ.setdefault("TAILOR_PLANS", "0")  # every test runs every stage


@pytest.fixture
def bless(request):
    """Whether expected text shall be rewritten rather than compared."""
    return request.config.getoption("--bless")


@pytest.fixture
def process(tmp_path, monkeypatch):
    """`process(text)` is a module of that text, as a process that starts now would have it."""
    from plans_kit import Processes

    monkeypatch.setenv("TAILOR_PLANS", "1")
    monkeypatch.setenv("TAILOR_CACHE_DIR", str(tmp_path / "cache"))
    processes = Processes(tmp_path)
    yield processes.start
    processes.end()

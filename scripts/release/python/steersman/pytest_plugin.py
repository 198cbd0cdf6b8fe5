"""Fixtures for pytest, which it finds by the entry point of the package."""

import pytest

from .server import Server


@pytest.fixture(scope="session")
def steersman_options():
    """Arguments of `steersman.Server`, as a dictionary. Override it to change nodes, controllers or manifests."""
    return {}


@pytest.fixture(scope="session")
def steersman_server(steersman_options):
    """One server for the whole run."""
    with Server(**steersman_options) as server:
        yield server


@pytest.fixture
def steersman_namespace(steersman_server):
    """The name of a new namespace for each test."""
    return steersman_server.namespace()


@pytest.fixture
def steersman_cluster(steersman_server, _steersman_prepared):
    """A cluster of its own for each test, with the objects that the server had at the first test."""
    with steersman_server.fork(_steersman_prepared) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _steersman_prepared(steersman_server):
    return steersman_server.snapshot()

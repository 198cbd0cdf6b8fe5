#!/usr/bin/env python3
"""Measures how long a test waits for a cluster or a namespace of its own.

    scripts/fork-times.py target/release/steersman [NUMBER]

Each time is that of one request of the control interface, with all controllers and three nodes. The server
has a Deployment with three pods, as a prepared one has objects.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "release/python"))

import steersman  # noqa: E402

MANIFEST = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]}},
    },
}


def timed(action):
    began = time.perf_counter()
    result = action()
    return (time.perf_counter() - began) * 1000, result


def report(what, times):
    print(f"{what}: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms of {len(times)}")


def main(program, number=20):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as manifest:
        json.dump(MANIFEST, manifest)
        manifest.flush()
        with steersman.Server(program=program, apply=[manifest.name]) as server:
            # The roll-out and the start of the controllers are over.
            server.advance("1m")
            prepared = server.snapshot()
            namespaces = [timed(server.namespace)[0] for _ in range(number)]
            forks = []
            for _ in range(number):
                took, cluster = timed(lambda: server.fork(prepared))
                forks.append(took)
                cluster.stop()
            still = []
            for _ in range(number):
                took, cluster = timed(lambda: server.fork(prepared, still=True))
                still.append(took)
                cluster.stop()
    report("namespace", namespaces)
    report("fork", forks)
    report("fork without controllers and nodes", still)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))

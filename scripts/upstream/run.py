#!/usr/bin/env python3
"""Shows faults of kube-controller-manager on a real API server; docs/upstream.md describes them.

    scripts/upstream/run.py [--assets FOLDER] [--manager PROGRAM] [--port 16443] [--list] [CASE...]

FOLDER contains etcd, kube-apiserver and kube-controller-manager; KUBEBUILDER_ASSETS is the default. Each case
gets a control plane of its own on four ports from PORT on, and takes half a minute to two minutes. A case tells
what the manager did and whether that is the fault. --manager runs another manager with the same flags, for example
Steersman. Exits with 1 if a case without the fault was found, or with --absent if one with it was found.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import autoscaler
import nodes
import pods
import quotas
import workloads
from world import Refused, World

CASES = {name: case for module in (workloads, autoscaler, quotas, pods, nodes) for name, case in module.CASES.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", default=os.environ.get("KUBEBUILDER_ASSETS"))
    parser.add_argument("--manager")
    parser.add_argument("--port", type=int, default=16443)
    parser.add_argument("--absent", action="store_true", help="expect that no case shows its fault")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CASES))
        return 0
    if not arguments.assets:
        parser.error("--assets or KUBEBUILDER_ASSETS is the folder of the programs")
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; --list tells all")
    # The programs of a case end with the script.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    manager = arguments.manager or pathlib.Path(arguments.assets) / "kube-controller-manager"
    unexpected = 0
    for name in arguments.cases or CASES:
        begun = time.monotonic()
        is_fault, seen = run(CASES[name], arguments, manager)
        unexpected += is_fault is not (not arguments.absent)
        verdict = {True: "FAULT", False: "no fault", None: "BROKEN OFF"}[is_fault]
        print(f"{name}: {verdict} ({time.monotonic() - begun:.0f} s): {seen}", flush=True)
    return 1 if unexpected else 0


def run(case, arguments, manager):
    """Runs one case in a new control plane. Returns whether the fault is there, None if the case broke off, and what
    was seen. The folder with the logs stays after a case that broke off."""
    folder = tempfile.mkdtemp(prefix="upstream-")
    world = World(arguments.assets, manager, folder, arguments.port)
    try:
        world.start()
        found = case(world)
    except (AssertionError, Refused, OSError) as error:
        return None, f"{error}; logs in {folder}"
    finally:
        world.stop()
    shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    sys.exit(main())

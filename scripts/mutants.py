#!/usr/bin/env python3
"""Mutation test of the perturbation suite: injects one bug at a time into the controllers, and
checks that the suite fails.

    scripts/mutants.py [TEXT]     only the injected bugs whose name contains TEXT

An injected bug is a list of replacements in a copy of the tree. The script ends if an original text
does not occur exactly once, so that the table stays up to date with the code. CARGO_TARGET_DIR may
name a build folder other than that of the project, because Cargo would reuse the changed code there.
CARGO_ARGUMENTS are options for cargo. Exits with 1 if the suite passes with an injected bug.

The program `steersman-mutants` changes every decision instead, and runs the controller's own tests.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEPLOYMENT = "controllers/deployment"
GARBAGE_COLLECTOR = "controllers/garbagecollector"
REPLICA_SET = "controllers/replicaset"
RUNTIME = "crates/runtime/src"

# (name, replacements: file, original text, changed text; arguments of the suite)
INJECTED_BUGS = [
    (
        "a limit of unavailable pods that is one too large",
        [(f"{DEPLOYMENT}/limits.rs", "d.spec.replicas - max_unavailable(d)", "d.spec.replicas - max_unavailable(d) - 1")],
        ["deployment/roll"],
    ),
    (
        "unavailable new pods count as available when old pods go",
        [(f"{DEPLOYMENT}/rolling.rs", ".saturating_sub(new_size.saturating_sub(new_available))", "")],
        ["deployment/no-better"],
    ),
    (
        "a new leader of roll-outs trusts its cache",
        [(f"{DEPLOYMENT}/sync.rs", "if self.checked || !is_old {", "if true {")],
        ["deployment/rollover"],
    ),
    (
        "a new leader of the garbage collector trusts its caches",
        [(f"{GARBAGE_COLLECTOR}/unseen.rs", "informer.is_synced() && ", "false && ")],
        ["garbagecollector/deployment"],
    ),
    (
        "Recreate does not wait for old pods",
        [(f"{DEPLOYMENT}/recreate.rs", "pub(super) fn old_pods_running(sets: &ReplicaSets, old_pods: &[Arc<Pod>]) -> bool {",
          "pub(super) fn old_pods_running(sets: &ReplicaSets, old_pods: &[Arc<Pod>]) -> bool {\n    if true { return false; }")],
        ["deployment/recreate"],
    ),
    (
        "pods are created and deleted without expectations and own writes",
        [
            (f"{RUNTIME}/keyed.rs", "if self.waits_for_cache(key) {", "if false {"),
            (f"{REPLICA_SET}/sync.rs", "let is_settled = self.control.consistency().satisfied(key);", "let is_settled = true;"),
        ],
        ["replicaset/create", "replicaset/scale"],
    ),
]


def is_detected(tree: pathlib.Path, replacements, arguments) -> bool:
    """Whether the suite fails with these replacements, which are reverted afterwards."""
    originals = {}
    for name, original, changed in replacements:
        file = tree / name
        text = file.read_text()
        originals.setdefault(file, text)
        if text.count(original) != 1:
            sys.exit(f"{name}: {original!r} occurs {text.count(original)} times instead of once")
        file.write_text(text.replace(original, changed))
    options = os.environ.get("CARGO_ARGUMENTS", "").split()
    # The whole workspace, as in other test runs: with one package, Cargo selects other features of
    # dependencies and builds them again.
    cargo = ["cargo", "test", *options, "--workspace", "--test", "suite"]
    try:
        # A replacement that does not compile is an error of this script, not a detection.
        subprocess.run([*cargo, "--no-run"], cwd=tree, check=True, stderr=subprocess.DEVNULL)
        run = subprocess.run([*cargo, "--", "--plans", "11", *arguments], cwd=tree, capture_output=True, text=True)
    finally:
        for file, text in originals.items():
            file.write_text(text)
    for line in [line for line in run.stdout.splitlines() if "--replay" in line or line.startswith("    ")][:4]:
        print(line[:200], file=sys.stderr)
    return run.returncode != 0


def main() -> int:
    if pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or "elsewhere").resolve() == ROOT / "target":
        sys.exit("CARGO_TARGET_DIR is that of the project, whose next build would contain the injected bugs")
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("target", ".git", ".venv"))
        for name, replacements, arguments in INJECTED_BUGS:
            if wanted in name:
                detected = is_detected(tree, replacements, arguments)
                missed += not detected
                print(f"{'detected' if detected else 'MISSED  '}  {name}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

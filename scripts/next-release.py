#!/usr/bin/env python3
"""Lists the work for the next release of Kubernetes: what changed upstream that Steersman must follow.

  scripts/next-release.py OLD NEW > work.md

OLD and NEW are source trees of Kubernetes: folders, or GITDIR:REVISION[:FOLDER] of a git repository. The
script fetches nothing. docs/next-release.md tells what to do with each part of the list.
"""

import argparse
import os
import re
import subprocess
import sys

# Feature gates that the manager has: file by component.
GATES = (
    "pkg/features/kube_features.go",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/features/kube_features.go",
    "staging/src/k8s.io/apiserver/pkg/features/kube_features.go",
    "staging/src/k8s.io/client-go/features/known_features.go",
    "staging/src/k8s.io/component-base/compatibility/registry.go",
    "staging/src/k8s.io/component-base/logs/api/v1/kube_features.go",
    "staging/src/k8s.io/component-base/metrics/features/kube_features.go",
    "staging/src/k8s.io/component-base/zpages/features/kube_features.go",
    "staging/src/k8s.io/controller-manager/pkg/features/kube_features.go",
)
NAMES = "cmd/kube-controller-manager/names/controller_names.go"
METRICS = "test/instrumentation/documentation/documentation-list.yaml"
# Folders whose code the manager runs, and those of their tests.
MANAGER = ("cmd/kube-controller-manager", "cmd/cloud-controller-manager", "pkg/controller", "pkg/controlplane/controller")
FLAGS = (
    "cmd/kube-controller-manager/app",
    "staging/src/k8s.io/apiserver/pkg/server/options/authentication.go",
    "staging/src/k8s.io/apiserver/pkg/server/options/authorization.go",
    "staging/src/k8s.io/apiserver/pkg/server/options/serving.go",
    "staging/src/k8s.io/cloud-provider/options/cloudprovider.go",
    "staging/src/k8s.io/cloud-provider/options/kubecloudshared.go",
    "staging/src/k8s.io/component-base/compatibility",
    "staging/src/k8s.io/component-base/config/options",
    "staging/src/k8s.io/component-base/logs",
    "staging/src/k8s.io/component-base/metrics",
    "staging/src/k8s.io/controller-manager/options",
)
SHARED = (
    "staging/src/k8s.io/client-go/tools/leaderelection",
    "staging/src/k8s.io/client-go/util/workqueue",
    "staging/src/k8s.io/component-helpers",
    "staging/src/k8s.io/endpointslice",
    "staging/src/k8s.io/dynamic-resource-allocation",
    "pkg/quota",
    "pkg/volume/util",
)
# Further folders whose code asks for gates in the manager.
ASKING = (
    "pkg/quota",
    "staging/src/k8s.io/client-go",
    "staging/src/k8s.io/component-base",
    "staging/src/k8s.io/component-helpers",
    "staging/src/k8s.io/controller-manager",
    "staging/src/k8s.io/dynamic-resource-allocation",
    "staging/src/k8s.io/endpointslice",
)
API = "staging/src/k8s.io/api"
# Kinds that no controller of the manager reads or writes.
FOREIGN = ("flowcontrol", "imagepolicy", "node", "apidiscovery", "authentication", "authorization")


class Tree:
    """The files of one release."""

    def __init__(self, source):
        self.source = source
        if os.path.isdir(source) and os.path.exists(os.path.join(source, NAMES)):
            self.git = None
            return
        directory, _, rest = source.partition(":")
        revision, _, self.folder = rest.partition(":")
        self.git = ["git", f"--git-dir={directory}"]
        self.revision = revision
        if not revision or self.read(NAMES) is None:
            sys.exit(f"next-release: {source} has no {NAMES}: give a source tree of Kubernetes, or GITDIR:REVISION[:FOLDER]")

    def _path(self, path):
        return f"{self.folder}/{path}" if self.folder else path

    def read(self, path):
        """The text of a file, or None."""
        if self.git is None:
            try:
                with open(os.path.join(self.source, path), encoding="utf-8") as file:
                    return file.read()
            except FileNotFoundError:
                return None
        run = subprocess.run([*self.git, "show", f"{self.revision}:{self._path(path)}"], capture_output=True, check=False)
        return run.stdout.decode() if run.returncode == 0 else None

    def files(self, folders):
        """Path and content number of each file of Go below the folders."""
        found = {}
        if self.git is None:
            for folder in folders:
                if folder.endswith(".go"):
                    found[folder] = hash(self.read(folder))
                for parent, _, names in os.walk(os.path.join(self.source, folder)):
                    for name in names:
                        if name.endswith(".go"):
                            path = os.path.relpath(os.path.join(parent, name), self.source)
                            found[path] = hash(self.read(path))
            return found
        listing = subprocess.run(
            [*self.git, "ls-tree", "-r", self.revision, "--", *map(self._path, folders)], capture_output=True, check=True
        ).stdout.decode()
        skipped = len(self.folder) + 1 if self.folder else 0
        for line in listing.splitlines():
            about, path = line.split("\t", 1)
            if path.endswith(".go"):
                found[path[skipped:]] = about.split()[2]
        return found


def gates(tree):
    """The declarations of each gate: its versions with default, stage and lock."""
    found = {}
    for path in GATES:
        text = tree.read(path) or ""
        # The name in the program and the name of the gate differ sometimes.
        names = dict(re.findall(r'^\s*(\w+)\s+(?:featuregate\.)?Feature\s*=\s*"(\w+)"', text, re.M))
        for _, name, body in re.findall(r"^(\t+)(?:\w+\.)?(\w+): \{\n((?:\1\t.*\n)+)\1\}", text, re.M):
            specs = re.findall(r"\{([^{}]*)\}", body)
            specs = [re.sub(r"\s*//.*", "", " ".join(spec.split())) for spec in specs]
            specs = [re.sub(r'version\.MustParse\("([\d.]+)"\)', r"\1", spec) for spec in specs]
            found[names.get(name, name)] = [re.sub(r"featuregate\.|Version: |PreRelease: ", "", spec) for spec in specs]
    return found


def proposals(tree):
    """The number of the enhancement proposal in the comment above each gate."""
    found = {}
    for path in GATES:
        declared = r'^((?:\t//.*\n)+)\t\w+\s+(?:featuregate\.)?Feature\s*=\s*"(\w+)"'
        for comment, name in re.findall(declared, tree.read(path) or "", re.M):
            if number := re.search(r"kep\.k8s\.io/(\d+)", comment):
                found[name] = number[1]
    return found


def controllers(tree):
    return dict(re.findall(r'^\s*(\w+)\s*=\s*"([\w-]+)"', tree.read(NAMES), re.M))


def flags(tree):
    """Name and text of each flag."""
    found = {}
    pattern = re.compile(r'\b(?:fs|\w*[fF]lags?|\w*[fF]s|FlagSet\("\w+"\))\.\w*Var[P]?\((?:[^"\n]|"")*?"([a-z][a-z0-9-]+)",(.*)')
    for path in sorted(tree.files(FLAGS)):
        # kube-log-runner is a program of its own.
        if not path.endswith("_test.go") and "kube-log-runner" not in path:
            for name, rest in pattern.findall(tree.read(path)):
                found.setdefault(name, " ".join(rest.split()))
    return found


def metrics(tree):
    """Name, type, stability and labels of each metric that is documented, and names of the manager's."""
    found = {}
    of_manager = set()
    for entry in re.split(r"^- ", tree.read(METRICS) or "", flags=re.M)[1:]:
        field = lambda name: (re.search(rf"^(?:  )?{name}: (.*)$", entry, re.M) or [None, ""])[1].strip()
        name = "_".join(filter(None, (field("namespace"), field("subsystem"), field("name"))))
        labels = re.search(r"^  labels:\n((?:  - .*\n?)+)", entry, re.M)
        labels = re.findall(r"- (\S+)", labels[1]) if labels else []
        components = re.findall(r"component: (\S+)", entry)
        found[name] = " ".join(filter(None, (field("type"), field("stabilityLevel"), field("deprecatedVersion"), f"{{{','.join(labels)}}}")))
        if "kube-controller-manager" in components:
            of_manager.add(name)
    return found, of_manager


def metric_lines(old, new):
    """Changes of the manager's metrics. Releases before 1.36 do not say whose a metric is."""
    before, after = old[0], new[0]
    names = old[1] | new[1] | (before.keys() - after.keys() if not old[1] else set())
    only = lambda metrics: {name: about for name, about in metrics.items() if name in names}
    return changed(only(before), only(after))


def tests(tree):
    """Tests of the manager, by file."""
    found = {}
    for path in sorted(tree.files((*MANAGER, "test/integration"))):
        if path.endswith("_test.go"):
            for name in re.findall(r"^func (Test\w+)\(", tree.read(path), re.M):
                found.setdefault(name, path)
    return found


def fields(tree):
    """The fields of all served types, by type."""
    found = {}
    for path in sorted(tree.files((API,))):
        if path.endswith("/types.go") and not any(f"/api/{group}/" in path for group in FOREIGN):
            package = path[len(API) + 1 : -len("/types.go")]
            kind = None
            for line in tree.read(path).splitlines():
                if match := re.match(r"type (\w+) struct", line):
                    kind = match[1]
                elif kind and (match := re.match(r'\t\w.*`json:"(\w+)', line)):
                    found.setdefault(f"{package} {kind}", []).append(match[1])
    return found


def field_lines(old, new):
    """New and gone fields, one line for each type."""
    lines = []
    for kind in sorted(old.keys() | new.keys()):
        before, after = old.get(kind, []), new.get(kind, [])
        shown = ", ".join(f"`{name}`" for name in after if name not in before)
        gone = ", ".join(f"`{name}`" for name in before if name not in after)
        if shown:
            lines.append(f"- [ ] {'new fields' if before else 'new type'}: {kind}: {shown}")
        if gone:
            lines.append(f"- [ ] {'gone fields' if after else 'gone type'}: {kind}: {gone}")
    return lines


def changed(old, new):
    """Lines: what came, what went and what changed, with both states."""
    lines = [f"- [ ] new: `{name}` {new[name]}".rstrip() for name in sorted(new.keys() - old.keys())]
    lines += [f"- [ ] gone: `{name}`" for name in sorted(old.keys() - new.keys())]
    both = sorted(old.keys() & new.keys())
    lines += [f"- [ ] changed: `{name}`: {old[name]} → {new[name]}" for name in both if old[name] != new[name]]
    return lines


def gate_lines(old, new, readers, proposals):
    """Changed gates. A gate that the manager's code reads comes first."""
    proposal = lambda name: [f"KEP-{proposals[name]}"] if name in proposals else []
    read = lambda name: ["read by " + ", ".join(readers[name])] if name in readers else []
    shown = lambda specs: "; ".join(specs)
    rows = []
    for name in sorted(old.keys() | new.keys()):
        before = old.get(name)
        after = new.get(name)
        if before == after:
            continue
        if before is None:
            text = f"- [ ] new: `{name}`: {shown(after)}"
        elif after is None:
            text = f"- [ ] gone: `{name}`"
        else:
            text = f"- [ ] changed: `{name}`: {shown([spec for spec in after if spec not in before]) or 'fewer versions'}"
        about = "; ".join(proposal(name) + read(name))
        rows.append((name not in readers, text + (f" ({about})" if about else "")))
    return [text for _, text in sorted(rows)]


def readers(tree, names):
    """The packages of the manager that read each gate."""
    found = {}
    for path in tree.files((*MANAGER, *ASKING)):
        if not path.endswith("_test.go"):
            text = tree.read(path)
            asked = re.findall(r"\bEnabled\((\w+)\)", text)
            if path not in GATES:
                # The package of the gates has several names, such as `features` and `clientgofeaturegate`.
                asked += re.findall(r"\b\w*[fF]eature\w*\.(\w+)", text)
            for name in set(asked) & names:
                found.setdefault(name, set()).add(re.sub("^(pkg/controller|staging/src/k8s.io)/", "", os.path.dirname(path)))
    return {name: sorted(packages) for name, packages in found.items()}


def sources(old, new):
    """Packages with the number of their files that changed, most first."""
    before, after = old.files((*MANAGER, *SHARED)), new.files((*MANAGER, *SHARED))
    counts = {}
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path) and not path.endswith("_test.go"):
            package = os.path.dirname(path)
            counts[package] = counts.get(package, 0) + 1
    return [f"- [ ] `{package}`: {count} files" for package, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def parity(old, new):
    """Tests that tests/parity.yaml lacks, and rows whose test is gone."""
    with open(os.path.join(os.path.dirname(__file__), "..", "tests", "parity.yaml"), encoding="utf-8") as file:
        known = set(re.findall(r"^ *- \{upstream: \"?(Test\w+)", file.read(), re.M))
    # Other folders test what the manager does not do.
    ours = {os.path.dirname(path) for name, path in old.items() if name in known}
    came = (name for name in new.keys() - old.keys() - known if os.path.dirname(new[name]) in ours)
    lines = [f"- [ ] new: `{name}` in {new[name]}" for name in sorted(came)]
    lines += [f"- [ ] gone: `{name}`, a row of tests/parity.yaml" for name in sorted((old.keys() - new.keys()) & known)]
    return lines


def records():
    """Files here that hold answers or values of one release."""
    constant = open(os.path.join(os.path.dirname(__file__), "..", "crates", "values", "src", "version.rs"), encoding="utf-8").read()
    release = re.search(r'"v([\d.]+)"', constant)[1]
    listing = subprocess.run(["git", "grep", "--name-only", "--fixed-strings", release], capture_output=True, check=True).stdout.decode()
    return [f"- [ ] `{path}`" for path in listing.splitlines() if path != "CHANGELOG.md"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="source tree of the release that Steersman equals")
    parser.add_argument("new", help="source tree of the next release")
    arguments = parser.parse_args()
    old, new = Tree(arguments.old), Tree(arguments.new)
    before, after = gates(old), gates(new)
    parts = (
        ("Controllers", changed(controllers(old), controllers(new))),
        ("Feature gates", gate_lines(before, after, readers(new, set(after)), proposals(new))),
        ("Flags", changed(flags(old), flags(new))),
        ("Metrics", metric_lines(metrics(old), metrics(new))),
        ("Fields of the API", field_lines(fields(old), fields(new))),
        ("Sources", sources(old, new)),
        ("Tests", parity(tests(old), tests(new))),
        ("Records of the old release", records()),
    )
    print(f"# From {arguments.old} to {arguments.new}")
    for title, lines in parts:
        print(f"\n## {title} ({len(lines)})\n")
        print("\n".join(lines) if lines else "Nothing.")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Renews the parts of the tables of types that come from the Go sources of Kubernetes.

  scripts/go-types.py FOLDER    (FOLDER is a source tree of Kubernetes)

In cluster/apiserver/src/schema/types.txt, the script renews the marks % (the name of a Go type) and
^ (embedded structs around a field), which errors of Go's decoder show. It writes internal.txt in
the same folder: the internal types that values in errors have.
"""

import pathlib
import re
import sys

TABLES = pathlib.Path(__file__).parent.parent / "cluster/apiserver/src/schema"

# Groups of types.txt with another folder than api/GROUP/v1.
FOLDERS = {
    "meta": "apimachinery/pkg/apis/meta/v1",
    "autoscaling": "api/autoscaling/v2",
    "autoscalingv1": "api/autoscaling/v1",
    "apiregistration": "kube-aggregator/pkg/apis/apiregistration/v1",
    "apiextensions": "apiextensions-apiserver/pkg/apis/apiextensions/v1",
}

# Internal types that errors show.
SHOWN = [
    "apiextensions.CustomResourceDefinitionVersion",
    "apiextensions.JSONSchemaProps",
    "apps.DaemonSetUpdateStrategy",
    "apps.DeploymentStrategy",
    "apps.StatefulSetUpdateStrategy",
    "batch.PodFailurePolicy",
    "batch.SuccessPolicy",
    "core.EventSource",
    "core.NodeSelectorTerm",
    "core.ObjectReference",
    "core.PersistentVolumeSource",
    "core.PodIP",
    "core.PodResourceClaim",
    "core.PodTemplateSpec",
    "core.ScopeSelector",
    "core.ServicePort",
    "core.Taint",
    "core.Toleration",
    "core.VolumeNodeAffinity",
    "flowcontrol.FlowDistinguisherMethod",
    "networking.ParentReference",
    "policy.PodDisruptionBudgetSpec",
    "rbac.RoleRef",
    "resource.DeviceAttribute",
    "resource.ResourceClaimSpec",
    "resource.ResourceClaimTemplateSpec",
    "storage.CSINodeDriver",
    "storage.VolumeAttachmentSpec",
]

INTERNAL_HEAD = """\
# Internal types of Kubernetes that values in errors have; scripts/go-types.py writes this table.
#   <type>                        starts a type; its fields follow, indented
#   <name> <name in Go> <value>   value is the one of an unset field: null, text, number, false; or a type of this table
#     *  the field is null if it is unset        []  list of, {} map to: null if it is unset
#   The name in Go is - if Go shows the fields of the value in place of the value. The name is -
#   if the API has these fields at this level, too.
"""


def fields_of(body):
    """Name (none if embedded), type and JSON name of each field of a struct."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    for line in body.splitlines():
        line = re.sub(r"\s*//.*", "", line).strip()
        tag = re.search(r'json:"([^",]*)', line)
        line = re.sub(r"\s*`.*", "", line)
        if not line:
            continue
        words = line.split(None, 1)
        if len(words) == 1:
            yield None, words[0], tag and tag[1]
        else:
            for name in words[0].split(","):
                yield name, words[1].strip(), tag and tag[1]


def served(group):
    """The folder of the served types of a group."""
    return f"staging/src/k8s.io/{FOLDERS.get(group, f'api/{group}/v1')}"


class Package:
    """The types of a folder, by name: a list of fields, or the text of another type."""

    def __init__(self, folder):
        self.types, self.imports = {}, {}
        for file in sorted(folder.glob("*.go")):
            if file.name.endswith("_test.go") or "generated" in file.name:
                continue
            text = file.read_text()
            for name, path in re.findall(r'^\t(?:(\w+) )?"(k8s\.io/[^"]+)"', text, re.M):
                self.imports.setdefault(name or path.rsplit("/", 1)[-1], path)
            for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
                self.types[name] = list(fields_of(body))
            for name, other in re.findall(r"^type (\w+) =? ?([^\s{]+)$", text, re.M):
                if other != "interface":
                    self.types[name] = other


class Tree:
    """The packages of a source tree."""

    def __init__(self, root):
        self.root, self.packages = root, {}

    def package(self, folder):
        if folder not in self.packages:
            self.packages[folder] = Package(self.root / folder)
        return self.packages[folder]

    def resolve(self, folder, name):
        """Folder and name of a type, as a file of a package names it."""
        if "." not in name:
            return folder, name
        package, name = name.split(".")
        path = self.package(folder).imports[package]
        path = path.removeprefix("k8s.io/kubernetes/").removeprefix("k8s.io/")
        return (path if path.startswith("pkg/") else f"staging/src/k8s.io/{path}"), name

    def found(self, folder, name):
        """Folder, name and definition of a type; the definition is None if it is elsewhere."""
        folder, name = self.resolve(folder, name)
        return folder, name, self.package(folder).types.get(name)

    def by_json(self, folder, name, way=()):
        """Fields of a struct by JSON name: folder, type and embedded structs around it."""
        folder, name, fields = self.found(folder, name)
        for field, ty, json in fields:
            if field is None and not json:
                yield from self.by_json(folder, ty.lstrip("*"), (*way, ty.split(".")[-1].lstrip("*")))
            elif json and json != "-":
                yield json, (folder, ty.lstrip("*"), way)

    def printed(self, folder, ty):
        """A type as Go prints it."""
        if ty.startswith("[]"):
            return "[]" + self.printed(folder, ty[2:].lstrip("*"))
        if ty.startswith("map["):
            key, value = ty.removeprefix("map[").split("]", 1)
            return f"map[{self.printed(folder, key)}]" + self.printed(folder, value.lstrip("*"))
        folder, name = self.resolve(folder, ty)
        return f"{folder.rsplit('/', 1)[-1]}.{name}" if name[0].isupper() else name


def expected(ty):
    """The Go type that the reader of the table assumes for a type without a mark."""
    ty = ty.lstrip("*")
    for start, go in (("[]", "[]"), ("{}", "map[string]")):
        if ty.startswith(start):
            return go + expected(ty[2:])
    if ty == "bytes":
        return "[]byte"
    return "v1." + ty.split(".")[1] if "." in ty else ty


def marked(tree):
    """The lines of types.txt with renewed marks."""
    holder = {}
    for line in (TABLES / "types.txt").read_text().splitlines():
        if not line.startswith(" "):
            if re.match(r"[a-z0-9]+\.[A-Z]", line):
                group, name = line.split()[0].split(".")
                folder = served(group)
                holder = dict(tree.by_json(folder, name)) if tree.found(folder, name)[2] else {}
            yield line
            continue
        words = [word for word in line.split() if word[0] not in "%^"]
        name, ty = words[0].rstrip("!"), words[1]
        if name in holder:
            folder, go, way = holder[name]
            printed = tree.printed(folder, go)
            leaf = ty.lstrip("*").removeprefix("[]").removeprefix("{}")
            own_decoder = leaf in ("quantity", "time", "microtime", "duration", "intorstring", "any")
            named_map = ty.startswith("{}") and not printed.startswith("map[")
            if printed != expected(ty) and (named_map or not own_decoder):
                words.append("%" + printed)
            if way:
                words.append("^" + ".".join(way))
        yield " " + " ".join(words)


class Internal:
    """The internal types, with the names that their fields have in the API."""

    def __init__(self, tree):
        self.tree, self.lines = tree, {}

    def add(self, name):
        """Adds a type, and the types of its fields."""
        if name in self.lines:
            return
        self.lines[name] = []
        self.lines[name] = list(self.of_struct(name))

    def served_names(self, folder, short):
        """The JSON names of a served struct's fields, by their names in Go."""
        names = {}
        folder, _, fields = self.tree.found(folder, short)
        for field, ty, json in fields or []:
            if field is not None:
                names[field] = json
            elif not json:
                names.update(self.served_names(folder, ty))
        return names

    def of_struct(self, name):
        """The lines of a struct."""
        group, short = name.split(".")
        internal = f"pkg/apis/{group}"
        if group == "apiextensions":
            internal = served(group).rsplit("/", 1)[0]
        names = self.served_names(served(group), short)
        for field, ty, json in self.tree.package(internal).types[short]:
            if json == "-":
                continue
            if field is None:
                embedded = ty.split(".")[-1]
                if "." in ty:
                    # The only embedded struct of another package is the metadata.
                    yield " metadata - null"
                else:
                    self.add(f"{group}.{embedded}")
                    yield f" - - {group}.{embedded}"
                continue
            api = names.get(field) or field[0].lower() + field[1:]
            yield f" {api} {field} {self.value(internal, ty)}"

    def value(self, folder, ty):
        """The value of an unset field of a type, or the type if the table has it."""
        for start in ("*", "[]"):
            if ty.startswith(start):
                return start + self.value(folder, ty[len(start):]).lstrip("*")
        if ty.startswith("map["):
            return "{}" + self.value(folder, ty.split("]", 1)[1]).lstrip("*")
        simple = {"string": "text", "bool": "false", "byte": "null", "float64": "number"}
        if ty in simple or ty.startswith(("int", "uint")) and ty.islower():
            return simple.get(ty, "number")
        special = {"Time": "null", "MicroTime": "null", "Quantity": "quantity", "IntOrString": "number", "Duration": "text"}
        at, name, found = self.tree.found(folder, ty)
        if name in special and "apimachinery" in at:
            return special[name]
        if isinstance(found, str):
            return self.value(at, found)
        if found is None:
            return "null"
        if "apimachinery" in at:
            return "null"
        group = at.split("/apis/")[1].split("/")[0]
        self.add(f"{group}.{name}")
        return f"{group}.{name}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree = Tree(pathlib.Path(sys.argv[1]))
    lines = list(marked(tree))
    (TABLES / "types.txt").write_text("\n".join(lines) + "\n")
    internal = Internal(tree)
    for name in SHOWN:
        internal.add(name)
    text = INTERNAL_HEAD
    for name, lines in sorted(internal.lines.items()):
        text += "\n".join([name, *lines]) + "\n"
    (TABLES / "internal.txt").write_text(text)


main()

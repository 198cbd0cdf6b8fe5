"""The crates and libraries inside a binary, with their licences.

cargo tree (exact for one package, its features and target) + cargo metadata (licences, folders) -> [`Part`]
"""

import json
import os
import pathlib
import re
import subprocess
import tomllib
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
LICENCES = pathlib.Path(__file__).resolve().parent / "licences"
# Names of files with licences and notices, at the top of a crate.
TEXT = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?$", re.IGNORECASE)


@dataclass
class Part:
    """A crate or library of a binary."""

    name: str
    version: str
    licence: str
    repository: str = ""
    # Hex digits of the SHA-256 of the package on crates.io.
    checksum: str = ""
    purl: str = ""
    folder: pathlib.Path | None = None
    # Part of this workspace.
    own: bool = False
    # Runs when the binary is built, and is not in it.
    build_only: bool = False
    needs: set = field(default_factory=set)

    @property
    def reference(self):
        return f"{self.name}@{self.version}"


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def tree(target, features, edges):
    """The packages of the program: (name, version) -> those that it needs."""
    found, above = {}, []
    text = cargo(
        "tree", "--locked", "--package", "steersman", "--target", target, *features,
        "--edges", edges, "--prefix", "depth", "--format", " {p}",
    )
    for line in text.splitlines():
        if not line.strip():
            continue
        depth, name, version = line.split()[:3]
        key = (name, version.removeprefix("v"))
        del above[int(depth) :]
        if above:
            found[above[-1]].add(key)
        above.append(key)
        found.setdefault(key, set())
    return found


def expression(text):
    """An SPDX expression; old crates separate their licences with slashes."""
    return " OR ".join(part.strip() for part in text.split("/"))


def of_binary(target, dev, rustc, glibc):
    """All parts of a binary, sorted by name. The first is the program itself."""
    features = [] if dev else ["--no-default-features"]
    linked = tree(target, features, "normal,no-proc-macro")
    built = tree(target, features, "normal,build")
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    known = {(package["name"], package["version"]): package for package in metadata["packages"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    sums = {(package["name"], package["version"]): package.get("checksum", "") for package in lock["package"]}
    parts = []
    for key in sorted(built):
        package = known[key]
        own = package["source"] is None
        parts.append(Part(
            name=package["name"],
            version=package["version"],
            licence=expression(package["license"] or ""),
            repository=package["repository"] or "",
            checksum=sums[key],
            purl="" if own else f"pkg:cargo/{package['name']}@{package['version']}",
            folder=pathlib.Path(package["manifest_path"]).parent,
            own=own,
            build_only=key not in linked,
            needs={f"{name}@{version}" for name, version in built[key]},
        ))
    program = next(part for part in parts if part.name == "steersman")
    parts.remove(program)
    libraries = [
        Part("rust-std", rustc, "MIT OR Apache-2.0", "https://github.com/rust-lang/rust", purl=f"pkg:generic/rust-std@{rustc}"),
        Part("glibc", glibc, "LGPL-2.1-or-later", "https://sourceware.org/git/glibc.git", purl=f"pkg:generic/glibc@{glibc}"),
    ]
    program.needs.update(part.reference for part in libraries)
    return [program, *parts, *libraries]


class LicenceError(Exception):
    """A part whose licence asks for a text that is nowhere."""


def texts(part):
    """The texts of the licence of a part: (name of the file, text)."""
    if part.name == "glibc":
        return [("LGPL-2.1", (LICENCES / "LGPL-2.1.txt").read_text())]
    found = []
    for path in sorted(part.folder.iterdir()) if part.folder else []:
        if path.is_file() and TEXT.match(path.name):
            found.append((path.name, path.read_text(errors="replace")))
    if found:
        return found
    kept = LICENCES / f"{part.name}.txt"
    if kept.exists():
        return [(kept.name, kept.read_text())]
    if "Apache-2.0" in part.licence:
        return [("Apache-2.0", (ROOT / "LICENSE").read_text())]
    raise LicenceError(
        f"{part.reference} ({part.licence}) has no file with its licence; "
        f"put the text of {part.repository} into {kept.relative_to(ROOT)}"
    )


def notices(program, parts):
    """The page of third-party licences of a binary. Equal texts are printed once."""
    foreign = [part for part in parts if not part.own and not part.build_only]
    lines = [
        f"Licences of the software inside {program}, which is licensed under Apache-2.0 itself.",
        "",
        "The GNU C Library is linked statically. The sources and scripts/build-static.sh build the same",
        "binary with a changed library.",
        "",
    ]
    users = {}
    for part in foreign:
        lines.append(f"{part.name} {part.version}: {part.licence}  {part.repository}".rstrip())
        for name, text in texts(part):
            plain = "\n".join(line.rstrip() for line in text.strip().splitlines())
            users.setdefault(plain, []).append(f"{part.name} {part.version} ({name})")
    for text, named in users.items():
        lines += ["", "-" * 100, "Of " + ", ".join(named), "-" * 100, "", text]
    return "\n".join(lines) + "\n"

"""The chart as the package that `helm package` would make, with the same bytes each time."""

import fnmatch
import re

import archives
from archives import Entry


def files(folder):
    """The files of the chart that .helmignore admits, below the name of the chart."""
    lines = (folder / ".helmignore").read_text().splitlines()
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        ignored = any(fnmatch.fnmatch(part, pattern) for part in inside.parts for pattern in patterns)
        if path.is_file() and not ignored:
            found.append(Entry(f"{folder.name}/{inside}", path.read_bytes()))
    return found


def version(folder):
    return re.search(r"^version: (\S+)$", (folder / "Chart.yaml").read_text(), re.MULTILINE)[1]


def package(folder, release):
    """The bytes of the package."""
    if version(folder) != release.version:
        raise ValueError(f"{folder / 'Chart.yaml'} has version {version(folder)} instead of {release.version}")
    return archives.tar_gz(files(folder), release.epoch)

"""The machines that a release is for, and the names that others have for them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Platform:
    """A machine: names in Go and OCI, Rust, npm and Python."""

    go: str
    target: str
    npm: str
    python: str

    @property
    def uname(self):
        return self.target.split("-")[0]


ALL = [
    Platform("amd64", "x86_64-unknown-linux-gnu", "x64", "x86_64"),
    Platform("arm64", "aarch64-unknown-linux-gnu", "arm64", "aarch64"),
]

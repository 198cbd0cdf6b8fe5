#!/usr/bin/env bash
# Prints a number of the sources that decide how well the profile fits: scripts/profile.sh keeps it in
# profile/sources, and scripts/release.sh compares. Tests and documents do not count.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z -- 'src/*.rs' 'controllers/*.rs' 'crates/*.rs' '*Cargo.toml' Cargo.lock ':!*/tests/*' ':!*tests.rs' |
  xargs --null sha256sum | sha256sum | cut --characters=-64

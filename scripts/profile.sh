#!/usr/bin/env bash
# Renews profile/steersman.profdata.gz: how often each part of the manager's code ran under the loads
# of steersman-bench. scripts/build-static.sh optimises the image's binary with it. The compiler
# ignores functions that have changed since, so an old profile is less useful, and no error.
#   scripts/profile.sh [--rows ROW,... of steersman-bench compare]
# KUBEBUILDER_ASSETS (a folder with kube-apiserver and etcd) selects a real API server; the default
# is the embedded one. Needs llvm-profdata of the compiler's LLVM: `rustup component add llvm-tools`,
# or a path in LLVM_PROFDATA.
set -euo pipefail
cd "$(dirname "$0")/.."

rows=idle:10,deployments:50x20,scaling:25x20,parallel-stateful-sets:50x10,ordered-stateful-sets:20x10
rows+=,daemon-sets:5,jobs:400,indexed-jobs:4x100,cron-jobs:100,services:20x30,namespaces:50
rows+=,nodes:300x20,csrs:50,autoscalers:50x1,claims:100,quotas:20x20,volumes:100
while [ $# -gt 0 ]; do
  case "$1" in
    --rows) rows=$2; shift 2 ;;
    *) echo "profile: $1 is not --rows" >&2; exit 2 ;;
  esac
done
profdata=${LLVM_PROFDATA:-$(rustc --print sysroot)/lib/rustlib/$(rustc --version --verbose | sed -n 's/^host: //p')/bin/llvm-profdata}
[ -x "$profdata" ] || { echo "profile: no llvm-profdata; run: rustup component add llvm-tools" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PROFILE_RUNS="$scratch/runs" scripts/build-static.sh "$scratch/bin"
cargo build --locked --profile dist --package steersman-bench
# Managers write their counts when they end.
"${CARGO_TARGET_DIR:-target}/dist/steersman-bench" compare --manager "$scratch/bin/steersman" --repeat 1 --rows "$rows"
"$profdata" merge --sparse --output "$scratch/steersman.profdata" "$scratch"/runs/*.profraw
gzip --no-name --best --stdout "$scratch/steersman.profdata" >profile/steersman.profdata.gz
rustc --version >profile/compiler
rustc --version --verbose | sed -n 's/^host: //p' >profile/target
scripts/profile-sources.sh >profile/sources

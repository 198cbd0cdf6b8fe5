#!/usr/bin/env bash
# Fuzzes the parsers of untrusted bytes, each target for a bounded time. Needs a C++ compiler; a
# stable Rust toolchain is enough.
#   scripts/fuzz.sh [seconds per target, default 10] [target...]
# The corpus is kept in target/fuzz, and the next run continues with it. An input that causes a
# failure is stored there, too. Copy it to proof/fuzz/seeds, which every test run reads.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-10}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for seeds in proof/fuzz/seeds/*; do targets+=("$(basename "$seeds")"); done
fi

export RUSTC_WORKSPACE_WRAPPER="$PWD/proof/fuzz/rustc"
cargo build --quiet --package steersman-fuzz --features libfuzzer --bins
directory=${CARGO_TARGET_DIR:-target}
for target in "${targets[@]}"; do
  mkdir -p "$directory/fuzz/$target"
  echo "fuzzing $target for $seconds s"
  if ! "$directory/debug/fuzz-$target" "$directory/fuzz/$target" "proof/fuzz/seeds/$target" -max_total_time="$seconds" -max_len=8192 -timeout=20 \
    -rss_limit_mb=256 -artifact_prefix="$directory/fuzz/$target-" -print_final_stats=1 >"$directory/fuzz/$target.log" 2>&1; then
    tail -n 60 "$directory/fuzz/$target.log"
    exit 1
  fi
  grep -E "stat::(number_of_executed_units|peak_rss_mb)" "$directory/fuzz/$target.log"
done

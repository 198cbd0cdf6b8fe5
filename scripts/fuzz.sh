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
# All packages are selected, so that crates of others have the features that they have in tests, and are
# compiled once for both.
cargo build --quiet --workspace --features steersman-fuzz/libfuzzer --bin 'fuzz-*'
directory=${CARGO_TARGET_DIR:-target}
fuzz() {
  mkdir -p "$directory/fuzz/$1"
  if ! "$directory/debug/fuzz-$1" "$directory/fuzz/$1" "proof/fuzz/seeds/$1" -max_total_time="$seconds" -max_len=8192 -timeout=20 \
    -rss_limit_mb=256 -artifact_prefix="$directory/fuzz/$1-" -print_final_stats=1 >"$directory/fuzz/$1.log" 2>&1; then
    tail -n 60 "$directory/fuzz/$1.log"
    return 1
  fi
  echo "fuzzed $1 for $seconds s: $(grep -oE "(number_of_executed_units|peak_rss_mb): *[0-9]+" "$directory/fuzz/$1.log" | tr -s ' \n' ' ')"
}
export -f fuzz
export directory seconds
# Two targets at a time; xargs fails if one of them does.
printf '%s\n' "${targets[@]}" | xargs --max-procs=2 --replace bash -c 'fuzz {}'

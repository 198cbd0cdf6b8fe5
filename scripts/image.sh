#!/usr/bin/env bash
# What the Dockerfile does, without a container engine: the same build, and the binary started in a root of its own with nothing else
# in it, as nobody in particular, against the embedded API server. Needs root, or user namespaces, for the chroot.
#   scripts/image.sh [--quick] [--twice]
# --quick leaves out the optimisation across crates, which takes most of the time; the binary gets half as large again, and is measured
# by that. The image itself is never built so.
# --twice builds again from nothing, in a folder that lies elsewhere, and fails unless both binaries have the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

most_bytes=$((15 * 1024 * 1024))
twice=
for argument in "$@"; do
  case "$argument" in
    --quick)
      export CARGO_PROFILE_DIST_LTO=off CARGO_PROFILE_DIST_CODEGEN_UNITS=16
      most_bytes=$((most_bytes * 3 / 2))
      ;;
    --twice) twice=yes ;;
    *) echo "image: $argument is neither --quick nor --twice" >&2; exit 2 ;;
  esac
done

scratch=$(mktemp -d)
children=()
clean_up() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait
  rm -rf "$scratch"
}
trap clean_up EXIT
fail() {
  echo "image: $1" >&2
  [ ! -f "$scratch/log" ] || cat "$scratch/log" >&2
  exit 1
}

# What .dockerignore lets through, and nothing else, built where it lies elsewhere: both must make no difference.
context=target/image-context
mkdir -p "$context"
find "$context" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
tar --create --anchored --no-wildcards --exclude-from=.dockerignore --file - -- $(ls --almost-all) | tar --extract --directory "$context"

root="$scratch/root"
"$context/scripts/build-static.sh" "$root/usr/local/bin"
binary="$root/usr/local/bin/steersman"
if [ -n "$twice" ]; then
  # The copy, since builds take long enough for somebody to change the sources.
  mkdir -p "$scratch/somewhere/else"
  tar --create --exclude=./target --directory "$context" --file - . | tar --extract --directory "$scratch/somewhere/else"
  "$scratch/somewhere/else/scripts/build-static.sh" "$scratch/second"
  rm -rf "$scratch/somewhere"
  cmp "$binary" "$scratch/second/steersman" || fail "a second build gives other bytes"
  echo "image: two builds give the same bytes, $(sha256sum <"$binary" | cut --characters=-64)"
fi
size=$(stat --format=%s "$(readlink -f "$binary")")
[ "$size" -lt "$most_bytes" ] || fail "the binary has $size bytes, more than $most_bytes"
if readelf --program-headers "$binary" | grep -q INTERP; then fail "the binary needs a dynamic linker"; fi

# As the image's USER, with no capability left and no file but the binary.
enter=(chroot --userspec=65532:65532 "$root")
if [ "$(id -u)" -ne 0 ]; then
  enter=(unshare --user --map-root-user chroot "$root")
fi
version=$("${enter[@]}" /usr/local/bin/kube-controller-manager --version) || fail "it does not start in an empty root"

# The embedded API server, with its own manager: the one under test stands for election under another name.
cargo build --quiet --package steersman
target/debug/steersman dev --write-kubeconfig "$root/kubeconfig" >"$scratch/server" 2>&1 &
children+=($!)
for _ in $(seq 300); do [ -f "$root/kubeconfig" ] && break; sleep 0.1; done
[ -f "$root/kubeconfig" ] || { cat "$scratch/server" >&2; fail "the embedded API server does not start"; }
chmod a+r "$root/kubeconfig"
"${enter[@]}" /usr/local/bin/kube-controller-manager --kubeconfig=/kubeconfig --leader-elect-resource-name=image \
  --controllers=podgc --bind-address=127.0.0.1 --secure-port=10357 >"$scratch/log" 2>&1 &
manager=$!
children+=("$manager")
for _ in $(seq 300); do
  grep -q 'Controller starting' "$scratch/log" && break
  kill -0 "$manager" 2>/dev/null || fail "it ended:"
  sleep 0.1
done
grep -q 'Controller starting' "$scratch/log" || fail "no controller starts:"
kill -TERM "$manager"
wait "$manager" || fail "it did not end in order:"

echo "image: $version, $((size / 1024)) KiB, runs as nobody in an empty root"

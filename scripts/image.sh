#!/usr/bin/env bash
# Checks the image's binary without a container engine. It builds as the Dockerfile does, and starts
# the binary against the embedded API server, with chroot, as an unprivileged user, in a folder with
# no other program. Needs root, or user namespaces.
#   scripts/image.sh [--quick] [--without-profile] [--twice] [--binary FILE]
# --quick builds without optimisation, and checks everything but the size. The image is never built
# this way.
# --without-profile omits the profile only, for other compilers than that of the profile.
# STEERSMAN selects the program that has the embedded API server; without it, the script builds one.
# --binary checks this binary and builds none. That of another machine starts in qemu-user-static.
# --twice builds a second time from nothing in another folder, and fails if the binaries differ.
set -euo pipefail
cd "$(dirname "$0")/.."
# Each folder has builds of its own; otherwise --twice would build once.
unset CARGO_TARGET_DIR

# All 52 controllers, with why, the page and the table of releases, took 27.1 MiB when the limit was set;
# 16 are the goal.
most_bytes=$((29 * 1024 * 1024))
twice=
given=
options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --quick)
      most_bytes=
      options=(--quick)
      ;;
    --without-profile) options=(--without-profile) ;;
    --twice) twice=yes ;;
    --binary) given=${2:?which binary?}; shift ;;
    *) echo "image: $1 is none of --quick, --without-profile, --twice, --binary" >&2; exit 2 ;;
  esac
  shift
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

root="$scratch/root"
binary="$root/usr/local/bin/steersman"
if [ -n "$given" ]; then
  mkdir -p "$root/usr/local/bin"
  cp "$given" "$binary"
  ln -s steersman "$root/usr/local/bin/kube-controller-manager"
else
  # Copy the files that .dockerignore admits to another folder, and build there. Neither the missing
  # files nor the path may change the binary.
  context=target/image-context
  mkdir -p "$context"
  find "$context" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
  tar --create --anchored --no-wildcards --exclude-from=.dockerignore --file - -- $(ls --almost-all) | tar --extract --directory "$context"

  "$context/scripts/build-static.sh" "${options[@]}" "$root/usr/local/bin"
  if [ -n "$twice" ]; then
    # Copy the first copy, because the sources may change during the build.
    mkdir -p "$scratch/somewhere/else"
    tar --create --exclude=./target --directory "$context" --file - . | tar --extract --directory "$scratch/somewhere/else"
    "$scratch/somewhere/else/scripts/build-static.sh" "${options[@]}" "$scratch/second"
    rm -rf "$scratch/somewhere"
    cmp "$binary" "$scratch/second/steersman" || fail "a second build gives other bytes"
    echo "image: two builds give the same bytes, $(sha256sum <"$binary" | cut --characters=-64)"
  fi
fi
size=$(stat --format=%s "$(readlink -f "$binary")")
[ -z "$most_bytes" ] || [ "$size" -lt "$most_bytes" ] || fail "the binary has $size bytes, more than $most_bytes"
if readelf --program-headers "$binary" | grep -q INTERP; then fail "the binary needs a dynamic linker"; fi
# The emulator is static too, so it works in the empty root.
emulator=()
machine=$(readelf --file-header "$binary" | sed -n 's/^ *Machine: *//p')
case "$machine $(uname -m)" in
  "AArch64 aarch64" | *"X86-64 x86_64") ;;
  "AArch64 "*) emulator=(qemu-aarch64-static) ;;
  *"X86-64 "*) emulator=(qemu-x86_64-static) ;;
esac
if [ ${#emulator[@]} -gt 0 ]; then
  found=$(command -v "${emulator[0]}") || fail "no ${emulator[0]} to start a binary of $machine; Debian has it in qemu-user-static"
  cp "$found" "$root/${emulator[0]}"
  emulator=("/${emulator[0]}")
fi

# Run as the image's USER, without capabilities. Container engines give each container the device of
# random numbers: the C library inside the binary hides getrandom(2) from the crate of that name.
mkdir "$root/dev"
if [ "$(id -u)" -eq 0 ]; then
  mknod --mode=444 "$root/dev/urandom" c 1 9
  mknod --mode=444 "$root/dev/random" c 1 8
  enter=(chroot --userspec=65532:65532 "$root")
else
  touch "$root/dev/urandom" "$root/dev/random"
  enter=(unshare --user --map-root-user --mount sh -c
    'for device in urandom random; do mount --bind "/dev/$device" "$0/dev/$device"; done; exec chroot "$0" "$@"' "$root")
fi
version=$("${enter[@]}" "${emulator[@]}" /usr/local/bin/kube-controller-manager --version) || fail "it does not start in an empty root"

# The embedded API server has its own manager, so the manager under test uses another Lease.
if [ -z "${STEERSMAN:-}" ]; then
  cargo build --quiet --package steersman
  STEERSMAN=target/debug/steersman
fi
"$STEERSMAN" dev --write-kubeconfig "$root/kubeconfig" >"$scratch/server" 2>&1 &
children+=($!)
for _ in $(seq 300); do [ -f "$root/kubeconfig" ] && break; sleep 0.1; done
[ -f "$root/kubeconfig" ] || { cat "$scratch/server" >&2; fail "the embedded API server does not start"; }
chmod a+r "$root/kubeconfig"
# Kubernetes gives a container these files. The name of the server shows that the resolver works.
mkdir "$root/etc"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
: >"$root/etc/resolv.conf"
sed -i 's|//127.0.0.1:|//localhost:|' "$root/kubeconfig"
grep -q '//localhost:' "$root/kubeconfig" || fail "the kubeconfig has another server than 127.0.0.1"
"${enter[@]}" "${emulator[@]}" /usr/local/bin/kube-controller-manager --kubeconfig=/kubeconfig --leader-elect-resource-name=image \
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

#!/bin/sh
# Builds the manager as it goes into the image: static, without the development cluster, the same bytes from the same sources wherever
# they lie. The Dockerfile runs this, and so does scripts/image.sh.
#   scripts/build-static.sh <folder for the binary>
# Builds for musl when its standard library is there (rustup target add <machine>-unknown-linux-musl), else for glibc, linked
# statically, and says so: glibc may load its look-up of names at run time, so that an API server that is given by name is not sure to be
# found. STEERSMAN_COMMIT is named in user agents.
set -eu
out=$(mkdir -p "${1:?which folder shall the binary go to?}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

target="$(uname -m)-unknown-linux-musl"
if [ ! -d "$(rustc --print target-libdir --target "$target")" ]; then
  echo "build-static: no standard library for $target, building for glibc with static linking in its place" >&2
  target="$(uname -m)-unknown-linux-gnu"
fi

# Where sources lie must not show in the binary, neither in Rust's panic messages nor in C's.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
name=$(echo "$target" | tr - _)
export "CFLAGS_$name=-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo"
# The C code of the TLS library needs no C library, so that any compiler for this machine will do.
command -v musl-gcc >/dev/null || export "CC_$name=cc"

cargo build --locked --profile dist --package steersman --bin steersman --no-default-features \
  --target "$target" --target-dir target/image
cp "target/image/$target/dist/steersman" "$out/steersman"
# The command of the manifests that this image is put into.
ln -sf steersman "$out/kube-controller-manager"

#!/bin/sh
# Builds the manager for the image: a static binary without the development cluster. The build is
# reproducible: the same sources give the same bytes in any folder. The Dockerfile and
# scripts/image.sh run this script.
#   scripts/build-static.sh <folder for the binary>
# The target is musl if its standard library is installed (rustup target add
# <machine>-unknown-linux-musl). Otherwise the target is glibc, linked statically, with a message.
# glibc may load its DNS resolver at run time, so such a binary may fail to resolve the name of the
# API server. User agents contain STEERSMAN_COMMIT.
set -eu
out=$(mkdir -p "${1:?which folder shall the binary go to?}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

target="$(uname -m)-unknown-linux-musl"
if [ ! -d "$(rustc --print target-libdir --target "$target")" ]; then
  echo "build-static: no standard library for $target, building for glibc with static linking in its place" >&2
  target="$(uname -m)-unknown-linux-gnu"
fi

# Panic messages of Rust and C must not contain the path of the sources.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
name=$(echo "$target" | tr - _)
export "CFLAGS_$name=-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo"
# The C code of the TLS library uses no C library, so any compiler for this machine works.
command -v musl-gcc >/dev/null || export "CC_$name=cc"

cargo build --locked --profile dist --package steersman --bin steersman --no-default-features \
  --target "$target" --target-dir target/image
cp "target/image/$target/dist/steersman" "$out/steersman"
# The command name in upstream's manifests, so that they work with this image.
ln -sf steersman "$out/kube-controller-manager"

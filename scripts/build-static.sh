#!/bin/sh
# Builds the manager for the image: a static binary without the development cluster. The build is
# reproducible: the same sources, compiler and C library give the same bytes in any folder. The
# Dockerfile and scripts/image.sh run this script.
#   scripts/build-static.sh <folder for the binary>
# The C library is that of this machine. glibc needs version 2.34: older ones read DNS servers and
# /etc/hosts with libraries that the image lacks. User agents contain STEERSMAN_COMMIT.
set -eu
out=$(mkdir -p "${1:?which folder shall the binary go to?}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

target=$(rustc --version --verbose | sed -n 's/^host: //p')
# Panic messages of Rust and C must not contain the path of the sources.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
export "CFLAGS_$(echo "$target" | tr - _)=-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo"
export RUSTFLAGS

cargo build --locked --profile dist --package steersman --bin steersman --no-default-features \
  --target "$target" --target-dir target/image
cp "target/image/$target/dist/steersman" "$out/steersman"
# The command name in upstream's manifests, so that they work with this image.
ln -sf steersman "$out/kube-controller-manager"

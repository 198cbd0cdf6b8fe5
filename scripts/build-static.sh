#!/bin/sh
# Builds a static binary: the manager for the image, or the whole program. The build is reproducible:
# the same sources, compiler and C library give the same bytes in any folder. The Dockerfile,
# scripts/image.sh and scripts/release.sh run this script.
#   scripts/build-static.sh [--without-profile] [--quick] [--dev] [--target TRIPLE] <folder for the binary>
# --dev builds the whole program, with the development cluster; by default, the manager alone.
# --target builds for another machine, with Debian's compiler for it: aarch64-unknown-linux-gnu needs
# the packages gcc-aarch64-linux-gnu and libc6-dev-arm64-cross, and `rustup target add`.
# The manager follows the profile in profile/, which fits one compiler and one target: another compiler
# is an error. --without-profile builds without it: such a binary takes more CPU time. --quick builds
# without optimisation, for tests of everything else.
# The C library is that of this machine. glibc needs version 2.36: older ones cannot start a binary with
# packed relocations, and those before 2.34 read DNS servers and /etc/hosts with libraries that the
# image lacks. User agents contain STEERSMAN_COMMIT.
# With PROFILE_RUNS, a folder, the binary counts there how often its code runs (scripts/profile.sh).
set -eu
host=$(rustc --version --verbose | sed -n 's/^host: //p')
target=$host
profile=yes
settings=dist
features=--no-default-features
while :; do
  case "${1:-}" in
    --without-profile) profile= ;;
    --quick) profile= settings=dev ;;
    --dev) features= ;;
    --target) target=${2:?which target?}; shift ;;
    *) break ;;
  esac
  shift
done
out=$(mkdir -p "${1:?which folder shall the binary go to?}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
builds=${CARGO_TARGET_DIR:-$PWD/target}/image

# Panic messages of Rust and C must not contain the path of the sources.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$builds=/src/target/image"
c_paths="-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$builds=/src/target/image"
# Equal functions share their code, and relocations take 10 KB instead of 1.7 MB. Rust has a linker with
# these options on this target since 1.90.
case "$target $(rustc --version | cut -d . -f 2)" in
  "x86_64-unknown-linux-gnu "9[0-9] | "x86_64-unknown-linux-gnu "???)
    RUSTFLAGS="$RUSTFLAGS -C link-arg=-Wl,--icf=all,-z,pack-relative-relocs" ;;
esac
variable=$(echo "$target" | tr - _)
if [ "$target" != "$host" ]; then
  # zig, which cargo-zigbuild links with, has no static glibc, and another C library would give free
  # memory back in another way (src/heap.rs).
  compiler_of_c=$(echo "$target" | sed 's/-unknown//')-gcc
  command -v "$compiler_of_c" >/dev/null || {
    echo "build-static: no $compiler_of_c; on Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2
    exit 1
  }
  export "CARGO_TARGET_$(echo "$variable" | tr '[:lower:]' '[:upper:]')_LINKER=$compiler_of_c"
fi
# The profile holds the symbols of one compiler and target, and another compiler may refuse its format.
# Settings of the build, such as CARGO_PROFILE_DIST_STRIP, change symbols too; the profile then fits
# nothing, silently. The same holds for the features of the development cluster.
compiler=$(rustc --version)
if [ -n "${PROFILE_RUNS:-}" ]; then
  RUSTFLAGS="$RUSTFLAGS -C profile-generate=$PROFILE_RUNS"
elif [ -z "$features" ]; then
  :
elif [ -z "$profile" ]; then
  echo "build-static: without the profile, so the binary takes more CPU time" >&2
elif [ "$target" != "$(cat profile/target)" ]; then
  echo "build-static: the profile is of $(cat profile/target), so the binary for $target takes more CPU time" >&2
elif [ "$compiler" = "$(cat profile/compiler)" ]; then
  mkdir -p "$builds"
  gunzip --stdout profile/steersman.profdata.gz >"$builds/steersman.profdata"
  # All crates depend on the file, and an equal one must not make them build again.
  touch -r profile/steersman.profdata.gz "$builds/steersman.profdata"
  RUSTFLAGS="$RUSTFLAGS -C profile-use=$builds/steersman.profdata"
else
  cat >&2 <<END
build-static: the profile is of "$(cat profile/compiler)", and this compiler is "$compiler".
Select that compiler with RUSTUP_TOOLCHAIN, renew the profile with scripts/profile.sh, or build with
--without-profile: the binary then takes more CPU time.
END
  exit 1
fi
export "CFLAGS_$variable=$c_paths"
export RUSTFLAGS

# shellcheck disable=SC2086 # No features are no argument.
cargo build --locked --profile "$settings" --package steersman --bin steersman $features \
  --target "$target" --target-dir "$builds"
folder=$settings
[ "$settings" != dev ] || folder=debug
cp "$builds/$target/$folder/steersman" "$out/steersman"
# The command name in upstream's manifests, so that they work with this image.
[ -z "$features" ] || ln -sf steersman "$out/kube-controller-manager"

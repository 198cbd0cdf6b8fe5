#!/bin/sh
# Builds the manager for the image: a static binary without the development cluster. The build is
# reproducible: the same sources, compiler and C library give the same bytes in any folder. The
# Dockerfile and scripts/image.sh run this script.
#   scripts/build-static.sh [--without-profile | --dev] <folder for the binary>
# The build follows the profile in profile/, which fits one compiler; another compiler is an error.
# --without-profile builds without it: such a binary takes more CPU time. --dev is a build of minutes
# without optimisation, for tests of everything else.
# The C library is that of this machine. glibc needs version 2.36: older ones cannot start a binary with
# packed relocations, and those before 2.34 read DNS servers and /etc/hosts with libraries that the
# image lacks. User agents contain STEERSMAN_COMMIT.
# With PROFILE_RUNS, a folder, the binary counts there how often its code runs (scripts/profile.sh).
set -eu
profile=yes settings=dist
case "${1:-}" in
  --without-profile) profile= ; shift ;;
  --dev) profile= settings=dev ; shift ;;
esac
out=$(mkdir -p "${1:?which folder shall the binary go to?}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

target=$(rustc --version --verbose | sed -n 's/^host: //p')
# Panic messages of Rust and C must not contain the path of the sources.
cargo_home="${CARGO_HOME:-$HOME/.cargo}"
RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
# Equal functions share their code, and relocations take 10 KB instead of 1.7 MB. Rust has a linker with
# these options on this target since 1.90.
case "$target $(rustc --version | cut -d . -f 2)" in
  "x86_64-unknown-linux-gnu "9[0-9] | "x86_64-unknown-linux-gnu "???)
    RUSTFLAGS="$RUSTFLAGS -C link-arg=-Wl,--icf=all,-z,pack-relative-relocs" ;;
esac
# The profile holds the symbols of one compiler, and another one may refuse its format. Settings of the
# build, such as CARGO_PROFILE_DIST_STRIP, change symbols too; the profile then fits nothing, silently.
compiler=$(rustc --version)
if [ -n "${PROFILE_RUNS:-}" ]; then
  RUSTFLAGS="$RUSTFLAGS -C profile-generate=$PROFILE_RUNS"
elif [ -z "$profile" ]; then
  echo "build-static: $settings build without the profile, so the binary takes more CPU time" >&2
elif [ "$compiler" = "$(cat profile/compiler)" ]; then
  mkdir -p target/image
  gunzip --stdout profile/steersman.profdata.gz >target/image/steersman.profdata
  # All crates depend on the file, and an equal one must not make them build again.
  touch -r profile/steersman.profdata.gz target/image/steersman.profdata
  RUSTFLAGS="$RUSTFLAGS -C profile-use=$PWD/target/image/steersman.profdata"
else
  cat >&2 <<END
build-static: the profile is of "$(cat profile/compiler)", and this compiler is "$compiler".
Select that compiler with RUSTUP_TOOLCHAIN, renew the profile with scripts/profile.sh, or build with
--without-profile: the binary then takes more CPU time.
END
  exit 1
fi
export "CFLAGS_$(echo "$target" | tr - _)=-ffile-prefix-map=$PWD=/src -ffile-prefix-map=$cargo_home=/cargo"
export RUSTFLAGS

cargo build --locked --profile "$settings" --package steersman --bin steersman --no-default-features \
  --target "$target" --target-dir target/image
folder=$settings
[ "$settings" = dist ] || folder=debug
cp "target/image/$target/$folder/steersman" "$out/steersman"
# The command name in upstream's manifests, so that they work with this image.
ln -sf steersman "$out/kube-controller-manager"

#!/usr/bin/env bash
# Makes everything that a release has into dist/: binaries for two machines, the image, the chart,
# Python and npm packages, bills of materials and sums. docs/releasing.md has the steps around it.
#   scripts/release.sh VERSION [--without-profile] [--unclean] [--binaries FOLDER] [--output FOLDER]
# The same commit gives the same bytes, on machines with the same compilers, Python and zlib.
# --without-profile goes on with a profile of other sources (profile/), which is an error otherwise, and
# builds without it: the manager then takes more CPU time.
# --unclean admits changes that are not committed.
# --binaries packs the binaries of an earlier run (target/release-binaries) without building.
# STEERSMAN_REPOSITORY is the web page of the repository, for the metadata of packages.
# Needs the Rust targets of x86-64 and aarch64, and Debian's gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross and qemu-user-static.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "release: $1" >&2
  exit 1
}
version=
options=()
unclean=
binaries=
output=dist
while [ $# -gt 0 ]; do
  case "$1" in
    --without-profile) options=(--without-profile) ;;
    --unclean) unclean=yes ;;
    --binaries) binaries=${2:?which folder has the binaries?}; shift ;;
    --output) output=${2:?which folder shall the release go to?}; shift ;;
    -*) fail "$1 is none of --without-profile, --unclean, --binaries, --output" ;;
    *) version=$1 ;;
  esac
  shift
done
[ -n "$version" ] || fail "which version? scripts/release.sh VERSION"

# Check all that can be wrong before the builds, which take long.
stated=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ "$stated" = "$version" ] || fail "Cargo.toml has version $stated; run: scripts/release/prepare.py $version"
grep --quiet --extended-regexp "^## ${version//./\\.} - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  fail "CHANGELOG.md has no dated section of $version; run: scripts/release/prepare.py $version"
if [ -z "$unclean" ] && [ -n "$(git status --porcelain)" ]; then
  fail "there are changes that are not committed (--unclean admits them):
$(git status --short)"
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
STEERSMAN_COMMIT=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH STEERSMAN_COMMIT

# The version of the C library that a compiler links.
glibc() {
  echo '#include <features.h>' | "$1" -E -dM -xc - |
    awk '$2 == "__GLIBC__" { major = $3 } $2 == "__GLIBC_MINOR__" { minor = $3 } END { print major "." minor }'
}

if [ -z "$binaries" ]; then
  if [ ${#options[@]} -eq 0 ] && [ "$(cat profile/sources 2>/dev/null)" != "$(scripts/profile-sources.sh)" ]; then
    fail "the profile in profile/ is of other sources: renew it with scripts/profile.sh, or add --without-profile"
  fi
  binaries=${CARGO_TARGET_DIR:-target}/release-binaries
  rm -rf "$binaries"
  scratch=$(mktemp --directory)
  trap 'rm -rf "$scratch"' EXIT
  for platform in amd64:x86_64 arm64:aarch64; do
    folder=$binaries/${platform%:*}
    target=${platform#*:}-unknown-linux-gnu
    mkdir -p "$folder"
    scripts/build-static.sh "${options[@]}" --target "$target" "$scratch"
    cp "$scratch/steersman" "$folder/kube-controller-manager"
    scripts/build-static.sh --dev --target "$target" "$scratch"
    cp "$scratch/steersman" "$folder/steersman"
  done
  # Names of compilers as scripts/build-static.sh has them.
  compiler() { if [ "$(uname -m)" = "$1" ]; then echo cc; else echo "$1-linux-gnu-gcc"; fi; }
  cat >"$binaries/toolchain.json" <<END
{"rustc": "$(rustc --version | cut -d ' ' -f 2)", "glibc": {"amd64": "$(glibc "$(compiler x86_64)")", "arm64": "$(glibc "$(compiler aarch64)")"}}
END
fi

# Each binary starts here, that of another machine in an emulator. The managers run controllers.
for platform in amd64:x86_64 arm64:aarch64; do
  folder=$binaries/${platform%:*}
  if [ "$(uname -m)" = "${platform#*:}" ]; then
    "$folder/steersman" version >/dev/null || fail "$folder/steersman does not start"
    own=$folder/steersman
  else
    "qemu-${platform#*:}-static" "$folder/steersman" version >/dev/null || fail "$folder/steersman does not start"
  fi
done
for platform in amd64 arm64; do
  STEERSMAN=$own scripts/image.sh --binary "$binaries/$platform/kube-controller-manager"
done

python3 scripts/release/pack.py --binaries "$binaries" --output "$output" --version "$version" \
  --epoch "$SOURCE_DATE_EPOCH" --commit "$STEERSMAN_COMMIT" --repository "${STEERSMAN_REPOSITORY:-}" \
  --downloads "${STEERSMAN_REPOSITORY:+$STEERSMAN_REPOSITORY/releases/download/v$version}"
(cd "$output" && sha256sum --check --quiet SHA256SUMS)

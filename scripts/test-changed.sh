#!/usr/bin/env bash
# Tests a change of controllers before it is pushed, without the suites of other controllers. CI runs all tests.
#   scripts/test-changed.sh [COMMIT]
# The change begins after COMMIT, by default where the branch left `main`, and includes files that are not
# committed. A change of other product code runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-$(git merge-base HEAD main)}
# With --no-renames, a file that moved counts at its old place too.
changed=$(git diff --name-only --no-renames "$base" && git ls-files --others --exclude-standard)
controllers=$(sed -n 's|^controllers/\([a-z]*\)/.*|\1|p' <<<"$changed" | sort --unique)
other=$(grep --extended-regexp --invert-match '^(controllers/[a-z]+/|docs/|[A-Z]+\.md$)' <<<"$changed" || true)
if [ -z "$changed" ]; then
  echo "test-changed: nothing changed since $base" >&2
  exit 0
fi
# Each test world uses controllers/testing, and each answer of `why` controllers/why.
if [ -n "$other" ] || grep --quiet --line-regexp 'testing\|why' <<<"$controllers"; then
  echo "test-changed: all tests, since the change has more than files of single controllers" >&2
  exec scripts/test.sh
fi

# A few controllers use another one, or test beside it.
for name in $controllers; do
  users=$(grep --recursive --files-with-matches --word-regexp "crate::$name" controllers || true)
  controllers+=$'\n'$(sed -n 's|^controllers/\([a-z]*\)/.*|\1|p' <<<"$users")
done
controllers=$(sort --unique <<<"$controllers" | grep --invert-match --line-regexp 'testing\|' || true)

scripts/lint.sh --without-clippy
if [ -z "${KUBECTL:-}" ] || [ -z "${PYTHON:-}" ]; then
  scripts/venv.sh
  export KUBECTL="${KUBECTL:-$PWD/.venv/bin/kubectl}" PYTHON="${PYTHON:-$PWD/.venv/bin/python}"
fi
# One set of packages, so that each crate is built once.
packages=(--package steersman --package steersman-controllers --package steersman-perturb --package steersman-stuck)
tests() {
  echo "test-changed: cargo test $*" >&2
  cargo test "${packages[@]}" "$@"
}
if [ -n "$controllers" ]; then
  # The decisions and stories of these controllers, the chains and takeovers of all.
  tests --lib -- $(sed 's/$/::/' <<<"$controllers") testing::
  # Faults at sampled points of the scenarios of these controllers, and the stories of `why`.
  names=$(sed 's|^|controllers/|' <<<"$controllers" | grep --invert-match --line-regexp controllers/why | xargs grep --recursive --no-filename --only-matching --perl-regexp \
    'aliases: &\["\K[a-z-]+|"\K[a-z-]+(?=-controller")' | sort --unique)
  tests --test suite -- $controllers $names
  tests --test stories
fi
# The tables of the documentation, the rules of the sources, and the manager with kubectl.
tests --test main -- docs:: parity:: releases:: structure:: kubectl::

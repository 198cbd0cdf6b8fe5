# Common commands. CI runs .ci/run, which calls the same scripts.

# Arguments with spaces reach the scripts as they are.
set positional-arguments

# Lists the recipes.
default:
    @{{ just_executable() }} --list

# Type-checks all crates, with and without the development cluster.
check:
    cargo check --workspace --all-targets
    cargo check --package steersman --no-default-features

# Runs all tests; arguments go to cargo test.
test *arguments:
    scripts/test.sh "$@"

# Tests a change of controllers since the branch left main, or since a commit; CI runs all tests.
changed *arguments:
    scripts/test-changed.sh "$@"

# Checks format, lints and dependencies.
lint:
    scripts/lint.sh

# Starts an API server, simulated nodes and the manager in one process.
dev *arguments:
    cargo run -- dev "$@"

alias devcluster := dev

# Renews the generated parts of the Helm chart.
chart:
    scripts/chart.sh

# Builds the binary of the image and starts it in an empty root: --quick, --without-profile, --twice.
image *arguments:
    scripts/image.sh "$@"

# Makes all packages of a release into dist/: the version, then --without-profile, --unclean.
release *arguments:
    scripts/release.sh "$@"

# Fuzzes each parser: seconds per target, then names of targets.
fuzz *arguments:
    scripts/fuzz.sh "$@"

# Runs random actions of several users against a dist build for ten minutes.
soak *arguments:
    cargo build --profile dist
    "${PYTHON:-.venv/bin/python}" scripts/soak.py "$@"

# Searches for faults for five hours, and adds the numbers to docs/proof/index.html.
nightly *arguments:
    cargo build --profile dist
    scripts/nightly.py "$@"

# Attacks the HTTPS port of a dist build with hostile certificates, frames and connections.
attack *arguments:
    cargo build --profile dist
    "${PYTHON:-.venv/bin/python}" scripts/attack.py "$@"

# Runs all checks that main must pass.
ci:
    .ci/run

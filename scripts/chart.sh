#!/usr/bin/env bash
# Renews what of the chart is made from something else: the controllers from the registry, the table of its README from values.yaml, and
# the golden renderings from the templates. Look at the difference before you commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
UPDATE_CHART=1 scripts/test.sh --test main chart::

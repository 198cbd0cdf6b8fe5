#!/usr/bin/env bash
# Renews the generated parts of the chart: the controllers (from the registry), the table in its
# README (from values.yaml), and the golden renderings (from the templates). Review the difference
# before you commit it.
set -euo pipefail
cd "$(dirname "$0")/.."
UPDATE_CHART=1 scripts/test.sh --test main chart::

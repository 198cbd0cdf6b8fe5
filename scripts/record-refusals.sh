#!/usr/bin/env bash
# Records the answers of kube-apiserver to the cases of cluster/apiserver/tests/refusals, for example
# after a change of the cases or for the next Kubernetes.
#   KUBEBUILDER_ASSETS=FOLDER scripts/record-refusals.sh
# FOLDER contains kube-apiserver and etcd. Then renew the list and the table of differences:
#   STEERSMAN_GOLDEN=write cargo test --package steersman-apiserver --test main refusals::
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/real-server.sh
cargo test --package steersman-apiserver --test main refusals::record -- --ignored --nocapture

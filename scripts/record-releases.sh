#!/usr/bin/env bash
# Records the answers of the kube-apiserver of one release to the requests of
# cluster/apiserver/tests/releases, for example after a change of the requests or for the next Kubernetes.
#   KUBEBUILDER_ASSETS=FOLDER scripts/record-releases.sh
# FOLDER contains kube-apiserver and etcd. Run it for each release that the test names.
set -euo pipefail
cd "$(dirname "$0")/.."
disabled=ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection
source scripts/real-server.sh
cargo test --package steersman-apiserver --test main releases::record -- --ignored --nocapture

#!/usr/bin/env bash
# Records the answers of kube-scheduler to the cases of cluster/nodes/tests/scheduling, for example
# after a change of the cases or for the next Kubernetes.
#   KUBEBUILDER_ASSETS=FOLDER scripts/record-scheduling.sh
# FOLDER contains kube-apiserver, etcd and kube-scheduler.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/real-server.sh
"$assets/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --secure-port=0 \
  2>"$home/kube-scheduler.log" &
pids=($! "${pids[@]}")
cargo test --package steersman-nodes --test main scheduling::record -- --ignored --nocapture

#!/usr/bin/env bash
# Compares the names that Steersman and kube-controller-manager show to operators, on the API server of one release:
# metrics, /configz, /flagz, /statusz, health checks and --help. For a small load, also Events, conditions, fields and
# their managers. Both run with the flags of kubeadm.
#   KUBEBUILDER_ASSETS=FOLDER STEERSMAN=target/debug/steersman scripts/compare-names.sh
# FOLDER contains etcd, kube-apiserver and kube-controller-manager. scripts/compare-names.txt lists the known
# differences; other ones fail the script. It takes some minutes, since controllers wait for nodes and schedules.
# With KEEP=DIRECTORY, all names are written there.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${STEERSMAN:?is the program of Steersman}"
disabled=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection
source scripts/real-server.sh
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$home/ca.key" -out "$home/ca.crt" -days 1 -subj /CN=kubernetes \
  -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature \
  2>>"$home/openssl.log"
python3 scripts/compare-names.py "$home" "$port" "$assets/kube-controller-manager" "$STEERSMAN"

#!/usr/bin/env bash
# Hands a settled cluster over from another controller manager to Steersman and back, and compares
# all objects.
#   scripts/takeover.sh --other PATH [--window SECONDS]
# PATH is the other program, such as a kube-controller-manager of 1.36. By default the cluster is
# the embedded one. KUBEBUILDER_ASSETS (a folder with kube-apiserver and etcd) or KUBECONFIG (a
# cluster without a controller manager) select another one. SECONDS is the time to look for writes
# after each handover: 60 by default, three rounds of the pod garbage collector.
set -euo pipefail

usage() {
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

other="" window=60
while [ $# -gt 0 ]; do
  case "$1" in
    --other=*) other="${1#*=}" ;;
    --window=*) window="${1#*=}" ;;
    --other | --window) [ $# -ge 2 ] || usage; declare "${1#--}=$2"; shift ;;
    *) usage ;;
  esac
  shift
done
[ -n "$other" ] || usage
[ -x "$other" ] || { echo "takeover: $other is not a program" >&2; exit 2; }

STEERSMAN_TAKEOVER_OTHER="$(realpath "$other")" STEERSMAN_TAKEOVER_WINDOW="$window"
export STEERSMAN_TAKEOVER_OTHER STEERSMAN_TAKEOVER_WINDOW
cd "$(dirname "$0")/.."
# Installs kubectl, which the test needs.
exec scripts/test.sh --test main -- --nocapture takeover::

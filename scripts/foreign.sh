#!/usr/bin/env bash
# Runs test suites of other projects against the embedded cluster and, with real programs, against a
# real one. Downloads nothing.
#   scripts/foreign.sh [--assets FOLDER] [--binary PROGRAM] [--results FOLDER] [--servers LIST]
#                      [--jobs N] [--batch N] [--only PATTERN] [--write FILE] SUITE=PATH...
#
#   e2e=PROGRAM        e2e.test of Kubernetes: conformance specs of five special interest groups
#   test-cmd=FOLDER    test/cmd of Kubernetes' source tree; _output/bin must have kubectl and kubectl-convert
#   kube-rs=FOLDER     integration tests of kube-rs
#   python=FOLDER      end-to-end tests of the Python client
#   kr8s=FOLDER, lightkube=FOLDER, kopf=FOLDER   end-to-end tests of these Python packages
#   envtest-js=FOLDER  tests of envtest-js, which starts the servers itself; node_modules must be complete
#
# --servers: `embedded`; `real`, which is etcd, kube-apiserver, kube-controller-manager and kube-scheduler of
# --assets with simulated nodes; `manager`, the same with Steersman as the manager. Without it, `embedded`, and with
# --assets the others as well. --results keeps logs and results; a further run with the same folder adds to them.
# --jobs is the number of processes of e2e, and --batch that of the specs of a process, which takes seconds to start.
# --only selects e2e specs by a regular expression, and the environment variable WHAT suites of test/cmd by name. --write
# renews the rows in FILE of the suites that have results.
# PYTHON is a Python with pytest and the packages of the suite. PORT and the five ports after it are used.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")

usage() { sed --quiet '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
assets= binary=$root/target/debug/steersman results= servers= jobs=2 batch=1 only=. write=
declare -A suites
while [ $# != 0 ]; do
  case $1 in
    --assets) assets=$(realpath "$2"); shift ;;
    --binary) binary=$(realpath "$2"); shift ;;
    --results) results=$(realpath --canonicalize-missing "$2"); shift ;;
    --servers) servers=${2//,/ }; shift ;;
    --jobs) jobs=$2; shift ;;
    --batch) batch=$2; shift ;;
    --only) only=$2; shift ;;
    --write) write=$(realpath "$2"); shift ;;
    e2e=* | test-cmd=* | kube-rs=* | python=* | kr8s=* | lightkube=* | kopf=* | envtest-js=*)
      suites[${1%%=*}]=$(realpath "${1#*=}") ;;
    *) usage ;;
  esac
  shift
done
[ -n "$servers" ] || servers="embedded${assets:+ real manager}"
results=${results:-$(mktemp --directory)}
port=${PORT:-16443}
python=${PYTHON:-$root/.venv/bin/python}
home=$(mktemp --directory)
# Folder with ca.crt and ca.key for users, if not a new authority.
authority=
pids=()

# Ends the programs, the latest one first.
stop() {
  local pid
  for ((index = ${#pids[@]} - 1; index >= 0; index--)); do
    pid=${pids[index]}
    kill "$pid" 2>/dev/null && wait "$pid" || true
  done
  pids=()
}
trap 'stop; rm --recursive --force "$home"' EXIT

# Starts a program whose log is a file of the results.
start() { # LOG PROGRAM [FLAG...]
  "${@:2}" >"$log/$1.log" 2>&1 &
  pids+=($!)
}

until_ready() { # URL
  until curl --fail --silent --insecure --header "Authorization: Bearer admin-token" "$1" >"$home/ready"; do
    kill -0 "${pids[-1]}" || { tail --lines=5 "$log"/*.log >&2; exit 1; }
    sleep 0.2
  done
}

# Starts kube-apiserver of a folder with kubeadm's usual flags, and writes the administrator's kubeconfig.
api_server() { # FOLDER [FLAG...]
  local store=http://127.0.0.1:$((port + 1)) data
  # Another server on the port would be tested instead.
  ! curl --silent --insecure "https://127.0.0.1:$port" >"$home/ready" || { echo "port $port is in use" >&2; exit 1; }
  data=$(mktemp --directory --tmpdir="$home")
  if [ "$1" = "$assets" ]; then
    start etcd "$1/etcd" --data-dir="$data/etcd" --unsafe-no-fsync --log-level=error --listen-client-urls="$store" \
      --advertise-client-urls="$store" --listen-peer-urls="http://127.0.0.1:$((port + 2))"
    until_ready "$store/health"
  fi
  openssl genrsa -out "$data/sa.key" 2048 2>"$log/openssl.log"
  if [ -n "$authority" ]; then
    cp "$authority/ca.crt" "$authority/ca.key" "$data/"
  else
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$data/ca.key" -out "$data/ca.crt" -subj /CN=kubernetes \
      -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature \
      2>>"$log/openssl.log"
  fi
  echo 'admin-token,admin,1,"system:masters"' >"$data/tokens.csv"
  start kube-apiserver "$1/kube-apiserver" --etcd-servers="$store" --secure-port="$port" --bind-address=127.0.0.1 \
    --cert-dir="$data" --token-auth-file="$data/tokens.csv" --client-ca-file="$data/ca.crt" \
    --service-account-key-file="$data/sa.key" --service-account-signing-key-file="$data/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --enable-bootstrap-token-auth --allow-privileged=true "${@:2}"
  until_ready "https://127.0.0.1:$port/readyz"
  # An empty configuration, because that of a system may want a key identifier, which the authority of test/cmd lacks.
  printf '[req]\ndistinguished_name = name\n[name]\n' >"$data/openssl.cnf"
  # Some clients know certificates only, and others tokens.
  openssl req -config "$data/openssl.cnf" -x509 -CA "$data/ca.crt" -CAkey "$data/ca.key" -newkey rsa:2048 -nodes \
    -keyout "$data/admin.key" -out "$data/admin.crt" -subj /O=system:masters/CN=admin \
    -addext basicConstraints=critical,CA:false -addext extendedKeyUsage=clientAuth 2>>"$log/openssl.log"
  # The first certificate is that of the server, the second one its authority.
  cat >"$data/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: foreign, cluster: {server: "https://127.0.0.1:$port",
  certificate-authority-data: $(base64 --wrap=0 "$data/apiserver.crt")}}]
users: [{name: admin, user: {token: admin-token, client-certificate-data: $(base64 --wrap=0 "$data/admin.crt"),
  client-key-data: $(base64 --wrap=0 "$data/admin.key")}}]
contexts: [{name: foreign, context: {cluster: foreign, user: admin}}]
current-context: foreign
END
  export KUBECONFIG=$data/kubeconfig
}

manager() { # PROGRAM [FLAG...]
  local data
  data=$(dirname "$KUBECONFIG")
  start manager "$1" --kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" \
    --authorization-kubeconfig="$KUBECONFIG" --authentication-skip-lookup --leader-elect=false --bind-address=127.0.0.1 \
    --secure-port=$((port + 3)) --root-ca-file="$data/apiserver.crt" --cluster-signing-cert-file="$data/ca.crt" \
    --cluster-signing-key-file="$data/ca.key" --service-account-private-key-file="$data/sa.key" "${@:2}"
  until_ready "https://127.0.0.1:$((port + 3))/healthz"
}

program_of_manager() { # SERVER
  case $1 in real) echo "$assets/kube-controller-manager" ;; *) echo "$binary" ;; esac
}

# Starts a server with controllers and three simulated nodes.
cluster() { # SERVER
  if [ "$1" = embedded ]; then
    export STEERSMAN_CONTROLLERS='*' STEERSMAN_NODES=3
    api_server "$("$binary" assets "$home/assets")" --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16
    unset STEERSMAN_CONTROLLERS STEERSMAN_NODES
    return
  fi
  api_server "$assets" --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16
  # As in kubeadm's clusters.
  manager "$(program_of_manager "$1")" --controllers='*,bootstrapsigner,tokencleaner' --allocate-node-cidrs \
    --cluster-cidr=10.244.0.0/16 --service-cluster-ip-range=10.96.0.0/16
  start scheduler "$assets/kube-scheduler" --kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" \
    --authorization-kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 --secure-port=$((port + 4))
  start nodes "$binary" nodes --count=3 --latency=0s --attach --events
}

# Results are lines of `pass`, `fail` or `skip`, a tab and the name of a test.

# A further run repeats the specs that did not pass.
run_e2e() { # SERVER
  cluster "$1"
  grep ^pass "$log/results" | cut --fields=2 >"$log/passed" || true
  "$python" "$root/scripts/foreign.py" specs "${suites[e2e]}" | sort >"$log/tests"
  { grep --extended-regexp -e "$only" "$log/tests" || true; } |
    { grep --invert-match --line-regexp --fixed-strings --file="$log/passed" || true; } >"$log/specs"
  mkdir --parents "$log/specs.d"
  specs() { # PROGRAM LOG NAME...
    local file=$2/specs.d/$(tr --complement --squeeze-repeats '[:alnum:]\n' - <<<"$3" | cut --bytes=2-120)
    rm --force "$file.json"
    timeout $((900 * ($# - 2))) "$1" --provider=skeleton --allowed-not-ready-nodes=-1 --ginkgo.no-color \
      --kubeconfig="$KUBECONFIG" --ginkgo.json-report="$file.json" \
      --ginkgo.focus="($(printf '%s\n' "${@:3}" | sed 's/[][\.*+?(){}|^$]/\\&/g' | paste --serial --delimiters='|'))\$" \
      >"$file.log" 2>&1 || true
    # A process that had to be killed leaves no report.
    if [ -f "$file.json" ]; then
      "$python" "$root/scripts/foreign.py" ginkgo "$file.json"
      rm "$file.json"
    else
      printf 'fail\t%s\n' "${@:3}"
    fi
  }
  export python root
  export -f specs
  each() { # NUMBER AT ONCE
    xargs --no-run-if-empty --delimiter='\n' --max-args="$batch" --max-procs="$1" bash -c 'specs "$@"' specs "${suites[e2e]}" "$log"
  }
  # Serial specs change nodes, which others see.
  { grep --invert-match --fixed-strings '[Serial]' "$log/specs" || true; } | each "$jobs"
  { grep --fixed-strings '[Serial]' "$log/specs" || true; } | each 1
}

# The part of hack/make-rules/test-cmd.sh that follows the start of the servers.
test_cmd() {
  cd "$0"
  export TERM=xterm ALLOW_SKEW=y
  unset KUBECONFIG
  source hack/lib/init.sh
  source hack/lib/test.sh
  source test/cmd/legacy-script.sh
  # The programs are there, and run already.
  make() { :; }
  kube::etcd::start() { :; }
  kube::etcd::cleanup() { :; }
  setup
  kubectl create --filename - <<<'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "127.0.0.1",
    "annotations": {"save-managers": "true"}}, "status": {"capacity": {"memory": "1Gi"}}}'
  export SUPPORTED_RESOURCES=("*")
  runTests
}

# The servers have the flags of hack/make-rules/test-cmd.sh, and the manager is a process of its own. No node runs.
run_test_cmd() { # SERVER
  local programs=$assets
  [ "$1" != embedded ] || programs=$("$binary" assets "$home/assets")
  authority=${suites[test-cmd]}/hack/testdata/ca
  api_server "$programs" --authorization-mode=RBAC,AlwaysAllow --service-cluster-ip-range=10.0.0.0/24 \
    --enable-admission-plugins=LimitRanger,ResourceQuota \
    --disable-admission-plugins=ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection
  authority=
  manager "$(program_of_manager "$1")"
  rm --recursive --force "$log/junit"
  # A shell of its own, because a list with || would stop errexit from working in the suites.
  # Suites read the server's certificate in the temporary folder.
  TMPDIR=$(dirname "$KUBECONFIG") SECURE_API_PORT=$port KUBE_JUNIT_REPORT_DIR=$log/junit bash -c "$(declare -f test_cmd); test_cmd" \
    "${suites[test-cmd]}" >"$log/output" 2>&1 || true
  mkdir --parents "$log-assertions"
  "$python" "$root/scripts/foreign.py" assertions "$log/output" >"$log-assertions/results"
  "$python" "$root/scripts/foreign.py" junit "$log/junit/junit_test-cmd.xml"
}

# Runs tests of a Python package, which find the kubeconfig in $KUBECONFIG or in $HOME.
pytest() { # SERVER FOLDER TESTS...
  cluster "$1"
  mkdir --parents "$home/.kube"
  cp "$KUBECONFIG" "$home/.kube/config"
  (cd "$2" && "$python" -m pytest --junitxml="$log/junit.xml" "${@:3}") >"$log/output" 2>&1 || true
  [ -f "$log/junit.xml" ] || { tail --lines=5 "$log/output" >&2; return; }
  "$python" "$root/scripts/foreign.py" junit "$log/junit.xml"
}

run_kube_rs() { # SERVER
  cluster "$1"
  (cd "${suites[kube-rs]}" && cargo test --offline --lib --workspace --exclude e2e --all-features --no-fail-fast -- --ignored --test-threads=1) \
    >"$log/output" 2>&1 || true
  "$python" "$root/scripts/foreign.py" cargo "$log/output"
}

# The client is that of the folder. It reads the kubeconfig of the home folder.
run_python() { # SERVER
  export PYTHONPATH=${suites[python]}
  HOME=$home pytest "$1" "${suites[python]}" kubernetes/e2e_test kubernetes/dynamic
  unset PYTHONPATH
}

# The cluster stands in for that of pytest-kind.
run_kr8s() { # SERVER
  cat >"$home/foreign_kind.py" <<'END'
import os, pathlib, subprocess, sys, types

class KindCluster:
    kubectl_path = "kubectl"
    kubeconfig_path = pathlib.Path(os.environ["KUBECONFIG"])

    def __init__(self, *_, **__): ...
    def create(self, *_): ...
    def delete(self): ...

    def kubectl(self, *arguments, **_):
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig_path)}
        return subprocess.run(["kubectl", *arguments], env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

sys.modules["pytest_kind"] = types.ModuleType("pytest_kind")
sys.modules["pytest_kind.cluster"] = types.SimpleNamespace(KindCluster=KindCluster)

def pytest_addoption(parser):
    parser.addoption("--keep-cluster", action="store_true")
END
  export PYTHONPATH=$home
  pytest "$1" "${suites[kr8s]}" -p foreign_kind -o addopts= --timeout=60 kr8s
  unset PYTHONPATH
}

run_lightkube() { # SERVER
  pytest "$1" "${suites[lightkube]}" e2e-tests
}

run_kopf() { # SERVER
  pytest "$1" "${suites[kopf]}" --only-e2e tests/e2e
}

# The suite starts kube-apiserver and etcd of the folder, without controllers and nodes.
run_envtest_js() { # SERVER
  local programs=$assets
  [ "$1" != manager ] || return 0
  [ "$1" != embedded ] || programs=$("$binary" assets "$home/assets")
  rm --force "$log/junit.xml"
  # On a busy machine, the import of a client takes longer than the limit of vitest.
  (cd "${suites[envtest-js]}" && KUBEBUILDER_ASSETS=$programs node_modules/.bin/vitest run --test-timeout=60000 \
    --reporter=junit --outputFile="$log/junit.xml") >"$log/output" 2>&1 || true
  [ -f "$log/junit.xml" ] || { tail --lines=5 "$log/output" >&2; return; }
  "$python" "$root/scripts/foreign.py" junit "$log/junit.xml"
}

for suite in e2e test-cmd kube-rs python kr8s lightkube kopf envtest-js; do
  [ -n "${suites[$suite]:-}" ] || continue
  for server in $servers; do
    log=$results/$server/$suite
    mkdir --parents "$log"
    [ $suite = e2e ] || rm --force "$log/results"
    touch "$log/results"
    "run_${suite//-/_}" "$server" >>"$log/results"
    stop
    passed=$(grep ^pass "$log/results" | cut --fields=2 | sort --unique | wc --lines)
    echo "$suite on $server: $passed of $(cut --fields=2 "$log/results" | sort --unique | wc --lines)" >&2
  done
done
[ -z "$write" ] || "$python" "$root/scripts/foreign.py" table "$results" "$write"

# For scripts that record answers: starts etcd and kube-apiserver of the folder KUBEBUILDER_ASSETS on
# ports from PORT on, and ends them with the script. Sets `assets`, and KUBECONFIG of an administrator.
# Further programs in `pids` end before the servers. Needs openssl and curl.

assets=${KUBEBUILDER_ASSETS:?is the folder with kube-apiserver and etcd}
port=${PORT:-16443}
home=$(mktemp --directory)
pids=()
finish() {
  # kube-apiserver ends first, because it waits for its store.
  for pid in "${pids[@]}"; do kill "$pid" && wait "$pid" || true; done
  rm --recursive --force "$home"
}
trap finish EXIT

store=http://127.0.0.1:$((port + 1))
"$assets/etcd" --data-dir="$home/etcd" --unsafe-no-fsync --log-level=error \
  --listen-client-urls="$store" --advertise-client-urls="$store" \
  --listen-peer-urls="http://127.0.0.1:$((port + 2))" &
pids=($!)
openssl genrsa -out "$home/sa.key" 2048 2>"$home/openssl.log"
echo 'recorder,admin,1,"system:masters"' >"$home/tokens.csv"
# The plugins that the embedded server lacks, or has as options only, would change the cases. Some recordings
# need a plugin, and set `disabled` before. Tools that make clusters allow privileged containers, unlike the
# flag's default.
disabled=${disabled:-ServiceAccount,TaintNodesByCondition,Priority,DefaultTolerationSeconds,StorageObjectInUseProtection}
"$assets/kube-apiserver" --etcd-servers="$store" --secure-port="$port" --bind-address=127.0.0.1 \
  --cert-dir="$home/certificates" --token-auth-file="$home/tokens.csv" --authorization-mode=RBAC \
  --service-cluster-ip-range=10.96.0.0/16 --service-account-key-file="$home/sa.key" \
  --service-account-signing-key-file="$home/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc --enable-priority-and-fairness=false \
  --allow-privileged=true \
  --disable-admission-plugins="$disabled" \
  >"$home/kube-apiserver.log" 2>&1 &
pids=($! "${pids[@]}")
cat >"$home/kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://127.0.0.1:$port", insecure-skip-tls-verify: true}}]
users: [{name: recorder, user: {token: recorder}}]
contexts: [{name: real, context: {cluster: real, user: recorder}}]
current-context: real
EOF
until curl --fail --silent --insecure --header "Authorization: Bearer recorder" \
  "https://127.0.0.1:$port/readyz" >"$home/readyz"; do
  kill -0 "${pids[0]}" || { tail --lines=5 "$home/kube-apiserver.log" >&2; exit 1; }
  sleep 0.2
done
export KUBECONFIG="$home/kubeconfig"

{{/* Name of the objects. */}}
{{- define "steersman.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "steersman.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "steersman.labels" -}}
{{ include "steersman.selectorLabels" . }}
app.kubernetes.io/component: controller-manager
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "steersman.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "steersman.fullname" .) -}}
{{- end -}}

{{/* The subjects of a binding: the managers. */}}
{{- define "steersman.subject" }}
subjects:
  - kind: ServiceAccount
    name: {{ include "steersman.serviceAccountName" . | quote }}
    namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{- define "steersman.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "steersman.leaseName" -}}
{{- $default := ternary "kube-controller-manager" (include "steersman.fullname" .) (eq .Values.mode "replace") -}}
{{- .Values.leaderElection.leaseName | default $default -}}
{{- end -}}

{{- define "steersman.leaseNamespace" -}}
{{- $default := ternary "kube-system" .Release.Namespace (eq .Values.mode "replace") -}}
{{- .Values.leaderElection.leaseNamespace | default $default -}}
{{- end -}}

{{/* The label job of the scraped managers. */}}
{{- define "steersman.job" -}}
{{- $default := ternary "kube-controller-manager" (include "steersman.fullname" .) (eq .Values.mode "replace") -}}
{{- .Values.serviceMonitor.jobName | default $default -}}
{{- end -}}

{{/* True if `extraArgs` has the flag: a list of .Values.extraArgs and of the flag, or of the beginning of its name. */}}
{{- define "steersman.hasFlag" -}}
{{- $flag := index . 1 -}}
{{- range index . 0 -}}
  {{- if hasPrefix $flag . }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* A duration in Go's format, such as 1m30s, in milliseconds. */}}
{{- define "steersman.milliseconds" -}}
{{- $units := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
  {{- $sum = addf $sum (mulf (regexFind "[0-9.]+" .) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Fails for durations that a manager refuses at its start. The rules are those of the manager. */}}
{{- define "steersman.checkElection" -}}
{{- with .Values.leaderElection -}}
{{- $lease := include "steersman.milliseconds" .leaseDuration | float64 -}}
{{- $renew := include "steersman.milliseconds" .renewDeadline | float64 -}}
{{- $retry := include "steersman.milliseconds" .retryPeriod | float64 -}}
{{- if le $lease $renew -}}
  {{- fail (printf "leaderElection: leaseDuration (%s) must be longer than renewDeadline (%s)" .leaseDuration .renewDeadline) -}}
{{- end -}}
{{- if le $renew (mulf $retry 1.2) -}}
  {{- fail (printf "leaderElection: renewDeadline (%s) must be longer than 1.2 times retryPeriod (%s)" .renewDeadline .retryPeriod) -}}
{{- end -}}
{{- if not $retry -}}
  {{- fail (printf "leaderElection: retryPeriod (%s) must be greater than zero" .retryPeriod) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The values of `controllers`, or their default. kubeadm's list turns the controllers of bootstrap tokens on.
*/}}
{{- define "steersman.wanted" -}}
{{- $wanted := .Values.controllers -}}
{{- if not $wanted -}}
  {{- if ne .Values.mode "replace" -}}
    {{- fail "mode beside: name in `controllers` the ones that Steersman runs, such as {deployment,replicaset}, and remove them from kube-controller-manager" -}}
  {{- end -}}
  {{- $wanted = ternary (list "*" "bootstrapsigner" "tokencleaner") (list "*") (eq .Values.preset "kubeadm") -}}
{{- end -}}
{{- dict "items" $wanted | toJson -}}
{{- end -}}

{{/*
Whether a feature gate is on: `true` or nothing. The arguments are .Values.featureGates and a gate of files/controllers.yaml. A gate
without a value of its own follows AllAlpha or AllBeta, as in the manager.
*/}}
{{- define "steersman.isOn" -}}
{{- $gates := index . 0 -}}
{{- $gate := index . 1 -}}
{{- $ofStage := ternary "AllAlpha" "AllBeta" (eq $gate.stage "ALPHA") -}}
{{- $isOn := $gate.default -}}
{{- if hasKey $gates $ofStage }}{{ $isOn = get $gates $ofStage }}{{ end -}}
{{- if hasKey $gates $gate.name }}{{ $isOn = get $gates $gate.name }}{{ end -}}
{{- if $isOn }}true{{ end -}}
{{- end -}}

{{/*
The controllers that are selected, as entries of files/controllers.yaml: those that run under the key `items`, and those without their
feature gate under `gated`. For each controller, the first item of .Values.controllers that names it decides, otherwise `*`. In mode
`replace` the items may also name upstream's other controllers, because kube-controller-manager's flag accepts them.
*/}}
{{- define "steersman.controllers" -}}
{{- $known := .Files.Get "files/controllers.yaml" | fromYamlArray -}}
{{- $wanted := (include "steersman.wanted" . | fromJson).items -}}
{{- $names := list "*" -}}
{{- range $known }}{{ $names = concat $names (list .name) .aliases }}{{ end -}}
{{- $mode := .Values.mode -}}
{{- if eq $mode "replace" -}}
  {{- $names = concat $names (.Files.Get "files/upstream.yaml" | fromYamlArray) -}}
{{- end -}}
{{- range $wanted -}}
  {{- if not (has (trimPrefix "-" .) $names) -}}
    {{- fail (printf "mode %s: %q in `controllers` is not one of %s" $mode . (join ", " $names)) -}}
  {{- end -}}
{{- end -}}
{{- $gates := .Values.featureGates -}}
{{- $items := list -}}
{{- $gated := list -}}
{{- range $controller := $known -}}
  {{- $own := append .aliases .name -}}
  {{- $decision := "" -}}
  {{- range $wanted -}}
    {{- if and (not $decision) (has (trimPrefix "-" .) $own) -}}
      {{- $decision = ternary "off" "on" (hasPrefix "-" .) -}}
    {{- end -}}
  {{- end -}}
  {{- if or (eq $decision "on") (and (not $decision) .enabledByDefault (has "*" $wanted)) -}}
    {{- $isOn := true -}}
    {{- with .gate }}{{ $isOn = include "steersman.isOn" (list $gates .) }}{{ end -}}
    {{- if $isOn -}}
      {{- $items = append $items $controller -}}
    {{- else -}}
      {{- $gated = append $gated $controller -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if not $items -}}
  {{- with $gated -}}
    {{- fail (printf "%s in `controllers` needs featureGates.%s=true" (first .).name (first .).gate.name) -}}
  {{- end -}}
  {{- fail "`controllers` selects no controller" -}}
{{- end -}}
{{- dict "items" $items "gated" $gated | toJson -}}
{{- end -}}

{{/* The names of the controllers that run. */}}
{{- define "steersman.names" -}}
{{- $names := list -}}
{{- range (include "steersman.controllers" . | fromJson).items }}{{ $names = append $names .name }}{{ end -}}
{{- dict "items" $names | toJson -}}
{{- end -}}

{{/*
The value of --controllers. In mode `beside` it lists every controller by name, so that a controller of a later version does not run in
both managers.
*/}}
{{- define "steersman.controllersFlag" -}}
{{- if eq .Values.mode "replace" -}}
{{- (include "steersman.wanted" . | fromJson).items | join "," -}}
{{- else -}}
{{- (include "steersman.names" . | fromJson).items | join "," -}}
{{- end -}}
{{- end -}}

{{/*
Fails for values that contradict each other.

Beside kube-controller-manager, a controller that makes the managers' own pods would wait for itself: the other manager has given it
up, and ours starts with the first pod. The ConfigMap kube-root-ca.crt is a part of each pod's credentials, and kube-system has it since
the cluster began.
*/}}
{{- define "steersman.check" -}}
{{- include "steersman.checkElection" . -}}
{{- $names := (include "steersman.names" . | fromJson).items -}}
{{- if eq .Values.mode "beside" -}}
  {{- if eq .Values.kind "DaemonSet" -}}
    {{- if has "daemonset-controller" $names -}}
      {{- fail "mode beside, kind DaemonSet: daemonset-controller in `controllers` would have to make the pod that it runs in. Leave it to kube-controller-manager (-daemonset), or set kind=Deployment" -}}
    {{- end -}}
  {{- else -}}
    {{- range list "deployment-controller" "replicaset-controller" -}}
      {{- if has . $names -}}
        {{- fail (printf "mode beside, kind Deployment: %s in `controllers` would have to make the pod that it runs in. Leave it to kube-controller-manager, or set kind=DaemonSet" .) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
  {{- if and (has "root-ca-certificate-publisher-controller" $names) (ne .Release.Namespace "kube-system") -}}
    {{- fail "mode beside: root-ca-certificate-publisher-controller in `controllers` needs --namespace kube-system. Elsewhere it would have to create the ConfigMap kube-root-ca.crt that its own pod mounts" -}}
  {{- end -}}
{{- end -}}
{{- $own := dict
  "controllers" "controllers" "feature-gates" "featureGates" "use-service-account-credentials" "useServiceAccountCredentials"
  "secure-port" "securePort" "leader-elect-resource-name" "leaderElection.leaseName"
  "leader-elect-resource-namespace" "leaderElection.leaseNamespace" "leader-elect-lease-duration" "leaderElection.leaseDuration"
  "leader-elect-renew-deadline" "leaderElection.renewDeadline" "leader-elect-retry-period" "leaderElection.retryPeriod"
  "kube-api-qps" "clientQPS" "kube-api-burst" "clientBurst" "v" "verbosity" "logging-format" "logFormat" -}}
{{- range .Values.extraArgs -}}
  {{- $flag := trimPrefix "--" . | splitList "=" | first -}}
  {{- if hasKey $own $flag -}}
    {{- fail (printf "--%s in `extraArgs`: use the value %s" $flag (get $own $flag)) -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.controlPlaneNodes .Values.affinity.nodeAffinity -}}
  {{- fail "affinity.nodeAffinity needs controlPlaneNodes=false" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.scraper (not .Values.serviceMonitor.scrapeClass) -}}
  {{- fail "serviceMonitor.scraper needs serviceMonitor.scrapeClass: without it, Prometheus uses the account that the chart creates" -}}
{{- end -}}
{{- end -}}

{{/*
The files that controllers need, as `flags` and `paths` of the node. The preset gives each controller its own files only: the token
controller runs as soon as there is a key, whatever --controllers says. Without a preset, the authority of the managers' own
credentials is the root CA. Otherwise the publisher would put an empty one into every new namespace.
*/}}
{{- define "steersman.files" -}}
{{- $names := (include "steersman.names" . | fromJson).items -}}
{{- $flags := dict -}}
{{- $paths := list -}}
{{- $pki := "/etc/kubernetes/pki" -}}
{{- $isPreset := eq .Values.preset "kubeadm" -}}
{{- $args := .Values.extraArgs -}}
{{- if and $isPreset (has "certificatesigningrequest-signing-controller" $names) (not (include "steersman.hasFlag" (list $args "--cluster-signing-"))) -}}
  {{- $flags = merge $flags (dict "cluster-signing-cert-file" (printf "%s/ca.crt" $pki) "cluster-signing-key-file" (printf "%s/ca.key" $pki)) -}}
  {{- $paths = concat $paths (list (printf "%s/ca.crt" $pki) (printf "%s/ca.key" $pki)) -}}
{{- end -}}
{{- $wantsRoot := or (has "root-ca-certificate-publisher-controller" $names) (has "serviceaccount-token-controller" $names) -}}
{{- if and $wantsRoot (not (include "steersman.hasFlag" (list $args "--root-ca-file="))) -}}
  {{- if $isPreset -}}
    {{- $_ := set $flags "root-ca-file" (printf "%s/ca.crt" $pki) -}}
    {{- $paths = append $paths (printf "%s/ca.crt" $pki) -}}
  {{- else -}}
    {{- $_ := set $flags "root-ca-file" "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt" -}}
  {{- end -}}
{{- end -}}
{{- if and $isPreset (has "serviceaccount-token-controller" $names) (not (include "steersman.hasFlag" (list $args "--service-account-private-key-file="))) -}}
  {{- $_ := set $flags "service-account-private-key-file" (printf "%s/sa.key" $pki) -}}
  {{- $paths = append $paths (printf "%s/sa.key" $pki) -}}
{{- end -}}
{{- dict "flags" $flags "paths" (uniq $paths) | toJson -}}
{{- end -}}

{{/* The selected controllers that have no work to do as they are configured: name and what is missing. */}}
{{- define "steersman.missing" -}}
{{- $names := (include "steersman.names" . | fromJson).items -}}
{{- $flags := (include "steersman.files" . | fromJson).flags -}}
{{- $args := .Values.extraArgs -}}
{{- $missing := list -}}
{{- if and (has "certificatesigningrequest-signing-controller" $names) (not (hasKey $flags "cluster-signing-key-file")) (not (include "steersman.hasFlag" (list $args "--cluster-signing-"))) -}}
  {{- $missing = append $missing (dict "name" "certificatesigningrequest-signing-controller" "what" "certificate and key: preset=kubeadm, or --cluster-signing-cert-file and --cluster-signing-key-file") -}}
{{- end -}}
{{- if and (has "serviceaccount-token-controller" $names) (not (hasKey $flags "service-account-private-key-file")) (not (include "steersman.hasFlag" (list $args "--service-account-private-key-file="))) -}}
  {{- $missing = append $missing (dict "name" "serviceaccount-token-controller" "what" "key: preset=kubeadm, or --service-account-private-key-file") -}}
{{- end -}}
{{- if and (has "node-ipam-controller" $names) (not (include "steersman.hasFlag" (list $args "--allocate-node-cidrs"))) -}}
  {{- $missing = append $missing (dict "name" "node-ipam-controller" "what" "--allocate-node-cidrs and --cluster-cidr, if the network plugin wants a range of addresses per node") -}}
{{- end -}}
{{- range (include "steersman.controllers" . | fromJson).gated -}}
  {{- $missing = append $missing (dict "name" .name "what" (printf "featureGates.%s=true, here and on the API server" .gate.name)) -}}
{{- end -}}
{{- dict "items" $missing | toJson -}}
{{- end -}}

{{/*
The arguments of kube-controller-manager that leave our controllers to Steersman: those of kubeadm without ours, or the others by name,
whichever is shorter.
*/}}
{{- define "steersman.othersControllers" -}}
{{- $names := (include "steersman.names" . | fromJson).items -}}
{{- $without := list "*" "bootstrapsigner" "tokencleaner" -}}
{{- range $names }}{{ $without = append $without (printf "-%s" .) }}{{ end -}}
{{- $others := list -}}
{{- range .Files.Get "files/controllers.yaml" | fromYamlArray -}}
  {{- if and (not (has .name $names)) (or .enabledByDefault (has "bootstrapsigner" .aliases) (has "tokencleaner" .aliases)) -}}
    {{- $others = append $others .name -}}
  {{- end -}}
{{- end -}}
{{- dict "items" (ternary $others $without (lt (len $others) (len $without))) | toJson -}}
{{- end -}}

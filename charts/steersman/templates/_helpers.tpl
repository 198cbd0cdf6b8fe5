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
The controllers that run, as entries of files/controllers.yaml under the key `items`. For each controller, the first item of
.Values.controllers that names it decides, otherwise `*`. In mode `replace` the items may also name upstream's other controllers, because
kube-controller-manager's flag accepts them.
*/}}
{{- define "steersman.controllers" -}}
{{- $known := .Files.Get "files/controllers.yaml" | fromYamlArray -}}
{{- $wanted := .Values.controllers -}}
{{- if not $wanted -}}
  {{- if ne .Values.mode "replace" -}}
    {{- fail "mode beside: name in `controllers` the ones that Steersman runs, such as {deployment,replicaset}, and remove them from kube-controller-manager" -}}
  {{- end -}}
  {{- $wanted = list "*" -}}
{{- end -}}
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
{{- $items := list -}}
{{- range $controller := $known -}}
  {{- $own := append .aliases .name -}}
  {{- $decision := "" -}}
  {{- range $wanted -}}
    {{- if and (not $decision) (has (trimPrefix "-" .) $own) -}}
      {{- $decision = ternary "off" "on" (hasPrefix "-" .) -}}
    {{- end -}}
  {{- end -}}
  {{- if or (eq $decision "on") (and (not $decision) .enabledByDefault (has "*" $wanted)) -}}
    {{- $items = append $items $controller -}}
  {{- end -}}
{{- end -}}
{{- if not $items -}}
  {{- fail "`controllers` selects no controller" -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/*
The value of --controllers. In mode `beside` it lists every controller by name, so that a controller of a later version does not run in
both managers.
*/}}
{{- define "steersman.controllersFlag" -}}
{{- if eq .Values.mode "replace" -}}
{{- .Values.controllers | default (list "*") | join "," -}}
{{- else -}}
{{- $names := list -}}
{{- range (include "steersman.controllers" . | fromJson).items }}{{ $names = append $names .name }}{{ end -}}
{{- $names | join "," -}}
{{- end -}}
{{- end -}}

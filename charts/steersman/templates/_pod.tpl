{{/* The pod template of the managers. */}}
{{- define "steersman.podTemplate" -}}
{{- $labels := include "steersman.selectorLabels" . -}}
{{- $files := include "steersman.files" . | fromJson -}}
{{- $isDaemonSet := eq .Values.kind "DaemonSet" -}}
{{- $isRoot := or .Values.runAsRoot (eq .Values.preset "kubeadm") -}}
metadata:
  labels:
    {{- $labels | nindent 4 }}
    app.kubernetes.io/component: controller-manager
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "steersman.serviceAccountName" . | quote }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- if $isRoot }}
    # The owner of the files, without the capabilities of root.
    runAsUser: 0
    {{- else }}
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  # Longer than --controller-shutdown-timeout, after which the manager releases its Lease.
  terminationGracePeriodSeconds: 30
  containers:
    - name: manager
      image: {{ include "steersman.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - --controllers={{ include "steersman.controllersFlag" . }}
        {{- with .Values.featureGates }}
        {{- $gates := list }}
        {{- range $name, $on := . }}{{ $gates = append $gates (printf "%s=%t" $name $on) }}{{ end }}
        - --feature-gates={{ join "," $gates }}
        {{- end }}
        - --leader-elect-resource-namespace={{ include "steersman.leaseNamespace" . }}
        - --leader-elect-resource-name={{ include "steersman.leaseName" . }}
        - --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
        - --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
        - --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
        - --use-service-account-credentials={{ .Values.useServiceAccountCredentials }}
        - --kube-api-qps={{ .Values.clientQPS }}
        - --kube-api-burst={{ int .Values.clientBurst }}
        - --secure-port={{ int .Values.securePort }}
        - --logging-format={{ .Values.logFormat }}
        - --v={{ int .Values.verbosity }}
        {{- range $flag, $file := $files.flags }}
        - --{{ $flag }}={{ $file }}
        {{- end }}
        {{- if .Values.tls.secretName }}
        - --tls-cert-file=/etc/steersman/tls/tls.crt
        - --tls-private-key-file=/etc/steersman/tls/tls.key
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      ports:
        - name: https-metrics
          containerPort: {{ int .Values.securePort }}
      startupProbe:
        httpGet: {path: /healthz, port: https-metrics, scheme: HTTPS}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: https-metrics, scheme: HTTPS}
        periodSeconds: 10
        timeoutSeconds: 15
        failureThreshold: 8
      readinessProbe:
        httpGet: {path: /readyz, port: https-metrics, scheme: HTTPS}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      {{- if or $files.paths .Values.tls.secretName .Values.extraVolumeMounts }}
      volumeMounts:
        {{- range $files.paths }}
        - name: {{ base . | replace "." "-" }}
          mountPath: {{ . }}
          readOnly: true
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/steersman/tls
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
  {{- if or $files.paths .Values.tls.secretName .Values.extraVolumes }}
  volumes:
    {{- range $files.paths }}
    - name: {{ base . | replace "." "-" }}
      hostPath: {path: {{ . }}, type: File}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . | quote }}
        # Readable for the group of the managers, fsGroup.
        defaultMode: 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  tolerations:
    {{- if .Values.tolerations }}
    {{- toYaml .Values.tolerations | nindent 4 }}
    {{- else if $isDaemonSet }}
    - operator: Exists
    {{- else }}
    - {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
    {{- end }}
  {{- if or .Values.controlPlaneNodes .Values.affinity }}
  affinity:
    {{- if .Values.controlPlaneNodes }}
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - {key: node-role.kubernetes.io/control-plane, operator: Exists}
    {{- end }}
    {{- with .Values.affinity }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- if and .Values.topologySpread.enabled (not $isDaemonSet) }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: {{ $.Values.topologySpread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- $labels | nindent 10 }}
      # Spreads the pods of each ReplicaSet separately, because old pods soon disappear.
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
{{- end -}}

{{/*
Service account of a process.
*/}}
{{- define "podium.process.serviceAccount" -}}
{{- $own := (index .root.Values .process).serviceAccount }}
{{- if $own.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "podium.serviceAccountName" . | quote }}
  namespace: {{ include "podium.namespace" .root }}
  {{- include "podium.metadata" (dict "root" .root "extraLabels" $own.labels "annotations" $own.annotations) | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Configuration file of a process. Call with "file", "kind" and "configuration" (a map) as well.
*/}}
{{- define "podium.process.configMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: podium-{{ .process }}
  namespace: {{ include "podium.namespace" .root }}
  {{- include "podium.metadata" (dict "root" .root) | nindent 2 }}
data:
  {{ .file }}: |
    apiVersion: config.podium.dev/v1
    kind: {{ .kind }}
    {{- with .configuration }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/*
Topology spread constraints of a process as a YAML list: one without a labelSelector gets that of the process.
*/}}
{{- define "podium.process.spread" -}}
{{- $selector := dict "matchLabels" (include "podium.selectorLabels" . | fromYaml) }}
{{- $constraints := list }}
{{- range (include "podium.setting" (dict "root" .root "process" .process "setting" "topologySpreadConstraints") | fromJson).value }}
{{- $constraints = append $constraints (mergeOverwrite (dict "labelSelector" $selector) .) }}
{{- end }}
{{- with $constraints }}{{ toYaml . }}{{ end }}
{{- end }}

{{/*
Deployment of a process. Call with "args" (list), "ports" and "fields" (environment) as lists too, "volumes" as a map from
the volume's name to its source, each mounted at /NAME, and "checksum", the configuration that a pod reads at its start only.
*/}}
{{- define "podium.process.deployment" -}}
{{- $own := index .root.Values .process }}
{{- $selector := include "podium.selectorLabels" . | fromYaml }}
{{- $of := dict }}
{{- range list "affinity" "env" "livenessProbe" "logLevel" "nodeSelector" "podAnnotations" "podLabels" "podSecurityContext" "priorityClassName" "readinessProbe" "securityContext" "startupProbe" "strategy" "tolerations" "volumeMounts" "volumes" }}
{{- $_ := set $of . (include "podium.setting" (dict "root" $.root "process" $.process "setting" .) | fromJson).value }}
{{- end }}
{{- $annotations := deepCopy ($of.podAnnotations | default dict) }}
{{- with .checksum }}
{{- $_ := set $annotations "checksum/configuration" (sha256sum .) }}
{{- end }}
{{- $args := .args }}
{{- if ne $of.logLevel "info" }}
{{- $args = append $args (printf "--log-level=%s" $of.logLevel) }}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: podium-{{ .process }}
  namespace: {{ include "podium.namespace" .root }}
  {{- include "podium.metadata" (dict "root" .root "labels" (include "podium.labels" . | fromYaml) "extraLabels" $own.labels "annotations" $own.annotations) | nindent 2 }}
spec:
  replicas: {{ int $own.replicas }}
  selector:
    matchLabels:
      {{- toYaml $selector | nindent 6 }}
  {{- with $of.strategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  template:
    metadata:
      labels:
        {{- mergeOverwrite (deepCopy ($of.podLabels | default dict)) $selector | toYaml | nindent 8 }}
      {{- with $annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "podium.serviceAccountName" . | quote }}
      {{- if $own.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- with $of.priorityClassName }}
      priorityClassName: {{ quote . }}
      {{- end }}
      # Never Podium's own scheduler, which may not run yet.
      schedulerName: default-scheduler
      terminationGracePeriodSeconds: 30
      {{- include "podium.pullSecrets" .root | nindent 6 }}
      {{- with $of.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $of.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $of.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "podium.process.spread" . }}
      topologySpreadConstraints:
        {{- . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml $of.podSecurityContext | nindent 8 }}
      containers:
      - name: {{ .process }}
        image: {{ include "podium.image" .root | quote }}
        {{- with .root.Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
        args:
          {{- toYaml (concat $args ($own.extraArgs | default list)) | nindent 10 }}
        env:
          {{- range $name, $path := .fields }}
          - name: {{ $name }}
            valueFrom: {fieldRef: {fieldPath: {{ $path }}}}
          {{- end }}
          {{- with $of.env }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        ports:
          {{- range $name, $number := .ports }}
          - {name: {{ $name }}, containerPort: {{ $number }}}
          {{- end }}
        {{- range $probe, $path := dict "startupProbe" "/startupz" "livenessProbe" "/livez" "readinessProbe" "/readyz" }}
        {{ $probe }}:
          httpGet: {path: {{ $path }}, port: metrics}
          {{- toYaml (index $of $probe) | nindent 10 }}
        {{- end }}
        {{- with $own.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- toYaml $of.securityContext | nindent 10 }}
        volumeMounts:
          {{- range $name, $_ := .volumes }}
          - {name: {{ $name }}, mountPath: /{{ $name }}, readOnly: true}
          {{- end }}
          {{- with $of.volumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
      volumes:
        {{- range $name, $source := .volumes }}
        - name: {{ $name }}
          {{- toYaml $source | nindent 10 }}
        {{- end }}
        {{- with $of.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{/*
Pod disruption budget of a process. With one replica it would block every drain, so there is none.
*/}}
{{- define "podium.process.podDisruptionBudget" -}}
{{- $own := index .root.Values .process }}
{{- if and $own.podDisruptionBudget.enabled (gt (int $own.replicas) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: podium-{{ .process }}
  namespace: {{ include "podium.namespace" .root }}
  {{- include "podium.metadata" (dict "root" .root) | nindent 2 }}
spec:
  {{- if kindIs "invalid" $own.podDisruptionBudget.maxUnavailable }}
  minAvailable: {{ $own.podDisruptionBudget.minAvailable }}
  {{- else }}
  maxUnavailable: {{ $own.podDisruptionBudget.maxUnavailable }}
  {{- end }}
  unhealthyPodEvictionPolicy: {{ $own.podDisruptionBudget.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels:
      {{- include "podium.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end }}

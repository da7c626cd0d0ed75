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
{{- range list "affinity" "env" "nodeSelector" "podAnnotations" "podLabels" "priorityClassName" "tolerations" }}
{{- $_ := set $of . (include "podium.setting" (dict "root" $.root "process" $.process "setting" .) | fromJson).value }}
{{- end }}
{{- $annotations := deepCopy ($of.podAnnotations | default dict) }}
{{- with .checksum }}
{{- $_ := set $annotations "checksum/configuration" (sha256sum .) }}
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
  strategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
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
      {{- with $of.priorityClassName }}
      priorityClassName: {{ quote . }}
      {{- end }}
      # Never Podium's own scheduler, which may not run yet.
      schedulerName: default-scheduler
      terminationGracePeriodSeconds: 30
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
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
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: {{ .process }}
        image: {{ include "podium.image" .root | quote }}
        {{- with .root.Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
        args:
          {{- toYaml .args | nindent 10 }}
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
        # Two minutes: ten times the duration of the first lists of a large cluster on a whole core. On a busy node the
        # process has only a tenth of one (requests.cpu).
        startupProbe:
          httpGet: {path: /startupz, port: metrics}
          initialDelaySeconds: 4
          periodSeconds: 4
          timeoutSeconds: 10
          failureThreshold: 30
        # Restarted after half a minute of silence, two terms of a Lease (15 s).
        livenessProbe:
          httpGet: {path: /livez, port: metrics}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 3
        readinessProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 2
          timeoutSeconds: 2
          failureThreshold: 3
        {{- with $own.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
          {{- range $name, $_ := .volumes }}
          - {name: {{ $name }}, mountPath: /{{ $name }}, readOnly: true}
          {{- end }}
      volumes:
        {{- range $name, $source := .volumes }}
        - name: {{ $name }}
          {{- toYaml $source | nindent 10 }}
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

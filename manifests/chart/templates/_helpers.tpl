{{/*
The namespace. Podium's registration, policies and commands know it by this name (docs/install.md).
*/}}
{{- define "podium.namespace" -}}
podium-system
{{- end }}

{{/*
Fail for a release in another namespace. `helm lint` has none, and skips failures.
*/}}
{{- define "podium.checkNamespace" -}}
{{- if ne .Release.Namespace (include "podium.namespace" .) }}
{{- fail (printf "Podium runs in the namespace %s only, which its registration exempts by name, and the release is in %s. Add: --namespace %s" (include "podium.namespace" .) .Release.Namespace (include "podium.namespace" .)) }}
{{- end }}
{{- end }}

{{/*
Labels and annotations of every object. Call with (dict "root" $ "labels" (dict ...) "annotations" (dict ...)).
*/}}
{{- define "podium.metadata" -}}
{{- $chart := printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- $labels := dict "helm.sh/chart" $chart "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- if and .root.Values.nameOverride (hasKey (.labels | default dict) "app.kubernetes.io/name") }}
{{- $_ := set .labels "app.kubernetes.io/name" .root.Values.nameOverride }}
{{- end -}}
labels:
  {{- mergeOverwrite (deepCopy (.root.Values.commonLabels | default dict)) (.extraLabels | default dict) $labels (.labels | default dict) | toYaml | nindent 2 }}
{{- with mergeOverwrite (deepCopy (.root.Values.commonAnnotations | default dict)) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The documents of a file, with the labels and annotations of every object, and for cert-manager's cainjector. Call with
(dict "root" $ "file" "files/webhooks/crds.yaml"); "annotations" and "labels" are added to all.
*/}}
{{- define "podium.documents" -}}
{{- $call := . }}
{{- $namespace := include "podium.namespace" .root }}
{{- range regexSplit "(?m)^---$" (include "podium.text" .) -1 }}
{{- $document := fromYaml . }}
{{- $metadata := $document.metadata }}
{{- $annotations := mergeOverwrite (dict) ($metadata.annotations | default dict) ($call.annotations | default dict) }}
{{- if and $call.root.Values.certManager.enabled (or (hasSuffix "WebhookConfiguration" $document.kind) (dig "spec" "conversion" "webhook" "" $document)) }}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/podium-webhook" $namespace) }}
{{- end }}
{{- $_ := mergeOverwrite $metadata (include "podium.metadata" (dict "root" $call.root "labels" $metadata.labels "extraLabels" $call.labels "annotations" $annotations) | fromYaml) }}
{{- if eq $document.kind "PrometheusRule" }}
{{- $_ := set $metadata "namespace" $namespace }}
{{- end }}
---
{{ toYaml $document }}
{{- end }}
{{- end }}

{{/*
The text of a file, with the service accounts and the address of the runbooks that the values name.
*/}}
{{- define "podium.text" -}}
{{- $text := .root.Files.Get .file }}
{{- range $process := list "webhook" "controller" "scheduler" }}
{{- $account := include "podium.serviceAccountName" (dict "root" $.root "process" $process) }}
{{- $text = regexReplaceAll (printf "serviceaccount:podium-system:podium-%s\\b" $process) $text (printf "serviceaccount:podium-system:%s" $account) }}
{{- end }}
{{- regexReplaceAllLiteral "runbook_url: [^#]+" $text (printf "runbook_url: %s" .root.Values.monitoring.runbooks) }}
{{- end }}

{{/*
The image, by digest if there is one.
*/}}
{{- define "podium.image" -}}
{{- $image := .Values.image }}
{{- with (.Values.global).imageRegistry }}{{ printf "%s/" . }}{{ end }}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- with $image.digest }}{{ printf "@%s" . }}{{ end }}
{{- end }}

{{/*
The field imagePullSecrets of a pod.
*/}}
{{- define "podium.pullSecrets" -}}
{{- with concat (.Values.image.pullSecrets | default list) ((.Values.global).imagePullSecrets | default list) }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Selector labels of a process.
*/}}
{{- define "podium.selectorLabels" -}}
app.kubernetes.io/component: {{ .process }}
app.kubernetes.io/part-of: podium
{{- end }}

{{/*
Labels of the objects of a process.
*/}}
{{- define "podium.labels" -}}
app.kubernetes.io/name: podium
{{ include "podium.selectorLabels" . }}
{{- end }}

{{/*
Name of the service account of a process. Call with (dict "root" $ "process" "webhook").
*/}}
{{- define "podium.serviceAccountName" -}}
{{- (index .root.Values .process).serviceAccount.name | default (printf "podium-%s" .process) }}
{{- end }}

{{/*
A setting of the pods as a JSON object with the field "value": the process's own, else that of all processes.
Call with (dict "root" $ "process" "webhook" "setting" "affinity").
*/}}
{{- define "podium.setting" -}}
{{- $own := index (index .root.Values .process) .setting }}
{{- if kindIs "invalid" $own }}
{{- dict "value" (index .root.Values .setting) | toJson }}
{{- else }}
{{- dict "value" $own | toJson }}
{{- end }}
{{- end }}

{{/*
The enabled processes as a JSON list.
*/}}
{{- define "podium.processes" -}}
{{- ternary (list "webhook" "controller" "scheduler") (list "webhook" "controller") .Values.scheduler.enabled | toJson }}
{{- end }}

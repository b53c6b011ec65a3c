{{- define "mcp-connections.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "mcp-connections.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "mcp-connections.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mcp-connections.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mcp-connections.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "mcp-connections.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "mcp-connections.selectorLabels" -}}
app.kubernetes.io/name: {{ include "mcp-connections.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "mcp-connections.proxySelectorLabels" -}}
app.kubernetes.io/name: mcp-proxy
app.kubernetes.io/instance: {{ .Values.proxy.name }}
{{- end -}}

{{/* Labels and annotations of an object; `extra` holds further ones. Called with (dict "root" $ "labels" … "annotations" …). */}}
{{- define "mcp-connections.metadata" -}}
{{- $own := dict
      "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_"))
      "app.kubernetes.io/name" (include "mcp-connections.name" .root)
      "app.kubernetes.io/instance" .root.Release.Name
      "app.kubernetes.io/version" .root.Chart.AppVersion
      "app.kubernetes.io/part-of" "mcp-connections"
      "app.kubernetes.io/managed-by" .root.Release.Service -}}
labels:
  {{- mergeOverwrite (dict) .root.Values.commonLabels (default dict .labels) $own | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) .root.Values.commonAnnotations (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the operator may do. Every verb is needed: the tests take each away in turn. */}}
{{- define "mcp-connections.rules" -}}
- apiGroups: [mcp-connections.io]
  resources: [mcpconnections]
  verbs: [get, list, watch]
- apiGroups: [mcp-connections.io]
  resources: [mcpproxies]
  verbs: [get, list, watch]
- apiGroups: [mcp-connections.io]
  resources: [mcpconnections/status, mcpproxies/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* JSON list of the namespaces that the operator serves; of none: all of them. */}}
{{- define "mcp-connections.namespaces" -}}
{{- if .Values.watchAllNamespaces -}}
[]
{{- else -}}
{{- default (list .Release.Namespace) .Values.watchNamespaces | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{/* The spec of the default McpProxy: what the values say, and how its pods come by the image. */}}
{{- define "mcp-connections.proxySpec" -}}
{{- $spec := deepCopy .Values.proxy.spec -}}
{{- $pod := dict -}}
{{- with .Values.image.pullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" . -}}
{{- end -}}
{{- with .Values.image.pullPolicy -}}
{{- $_ := set $pod "containers" (list (dict "name" "proxy" "imagePullPolicy" .)) -}}
{{- end -}}
{{- if and $pod (not $spec.image) -}}
{{- $given := default dict (dig "podTemplate" "spec" dict $spec) -}}
{{- if and $given.containers $pod.containers -}}
{{- $_ := unset $pod "containers" -}}
{{- end -}}
{{- $template := default dict $spec.podTemplate -}}
{{- $_ := set $template "spec" (mergeOverwrite $pod $given) -}}
{{- $_ := set $spec "podTemplate" $template -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* Values that do not go together, which no schema can tell. */}}
{{- define "mcp-connections.check" -}}
{{- if and .Values.watchAllNamespaces .Values.watchNamespaces -}}
{{- fail "watchAllNamespaces and watchNamespaces exclude each other: leave one of them out" -}}
{{- end -}}
{{- if and .Values.proxy.create .Values.watchNamespaces (not (has .Release.Namespace .Values.watchNamespaces)) -}}
{{- fail (printf "proxy.create puts an McpProxy into namespace %s, which watchNamespaces does not name: add it there, or set proxy.create=false" .Release.Namespace) -}}
{{- end -}}
{{- if .Values.proxy.autoscaling.enabled -}}
{{- if hasKey .Values.proxy.spec "replicas" -}}
{{- fail "proxy.autoscaling.enabled and proxy.spec.replicas exclude each other: one of them decides how many pods there are" -}}
{{- end -}}
{{- if lt (int .Values.proxy.autoscaling.maxReplicas) (int .Values.proxy.autoscaling.minReplicas) -}}
{{- fail "proxy.autoscaling.maxReplicas must not be less than proxy.autoscaling.minReplicas" -}}
{{- end -}}
{{- if not (dig "resources" "requests" "cpu" "" .Values.proxy.spec) -}}
{{- fail "proxy.autoscaling goes by a share of the CPU that pods request: set proxy.spec.resources.requests.cpu" -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) .Values.rbac.create -}}
{{- fail "serviceAccount.create=false with rbac.create=true would give the operator's rights to the namespace's default ServiceAccount: set serviceAccount.name" -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap that the default McpProxy is made of. Another name of the proxy is another ConfigMap, so that the proxy of the old name goes. */}}
{{- define "mcp-connections.proxySource" -}}
{{- printf "%s-proxy-%s" (include "mcp-connections.fullname" .) .Values.proxy.name -}}
{{- end -}}

{{- define "csi-proxy.labels" -}}
app.kubernetes.io/name: csi-proxy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "csi-proxy.selector" -}}
app.kubernetes.io/name: csi-proxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "csi-proxy.image" -}}
{{- $repository := required "set image.repository: there is no published image of CSI Proxy, so build one and push it to a registry of your own" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "csi-proxy.metricsOnLoopback" -}}
{{- if or (hasPrefix "127." .Values.metrics.address) (eq .Values.metrics.address "localhost" "::1") }}true{{ end -}}
{{- end }}

{{- /* The configuration file that the value config describes, or nothing. */ -}}
{{- define "csi-proxy.config" -}}
{{- range $key, $value := .Values.config }}
{{- with get (dict "kubelet-path" "kubeletPath" "working-dir" "workingDirs" "metrics-bind-address" "metrics" "v" "verbosity") $key }}
{{- fail (printf "config.%s: leave it out and set the value %s, which the chart gives csi-proxy as a flag, and flags override the file" $key .) }}
{{- end }}
{{- if eq $key "windows-service" }}
{{- fail "config.windows-service: leave it out, because the pod is not a service of Windows" }}
{{- end }}
{{- if kindIs "slice" $value }}
{{ $key }}:
{{- range $value }}
  - {{ include "csi-proxy.configValue" . }}
{{- end }}
{{- else }}
{{ $key }}: {{ include "csi-proxy.configValue" $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "csi-proxy.configValue" -}}
'{{ if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ toString . | replace "'" "''" }}{{ end }}'
{{- end }}

{{- /*
The variables of both policies that judge variables.paths, which are in lower case and with
backslashes:

  odd    paths that may reach a pipe, but are not \\.\pipe\NAME. They are in the namespace of
         devices (\\.\, \\?\, \??\) and have "pipe", "ipc$", "..", a way around it (globalroot)
         or a character that is not ASCII, which Windows may fold to an ASCII one; or they are
         paths of a server with the component "pipe" or "ipc$".
  named  the names of pipes in the other paths
  other  names that begin as ours do, and are not pipes of the API
  ours   names of pipes of the API, as csi-proxy-GROUP-VERSION
*/ -}}
{{- define "csi-proxy.pathVariables" -}}
- name: named
  expression: variables.paths.filter(p, p.matches(r'^\\\\[.]\\pipe\\[^\\]+$')).map(p, p.substring(9))
- name: odd
  expression: >-
    variables.paths.filter(p, !p.matches(r'^\\\\[.]\\pipe\\[^\\]+$') && (
    p.matches(r'^\s*(\\\\[.?]+\\|\\[?][?]\\)') ? p.matches(r'pipe|ipc[$]|[.][.]|globalroot|[^\x20-\x7e]') :
    p.matches(r'^\s*\\\\') && p.matches(r'\\(pipe|ipc[$])[. ]*(\\|$)')))
- name: ours
  expression: variables.named.filter(name, name.matches('^csi-proxy-(disk|filesystem|volume|smb|iscsi|system)-v[0-9][0-9a-z]*$'))
- name: other
  expression: variables.named.filter(name, name.matches('^ *csi-proxy') && !(name in variables.ours))
{{- end }}

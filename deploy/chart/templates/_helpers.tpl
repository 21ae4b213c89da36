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

  named  the names of pipes in paths that are written as \\.\pipe\NAME
  odd    other paths in the namespace of devices (\\.\, \\?\, \??\) or of servers (\\) that
         may reach a pipe, itself or by what a subPath adds. What cannot is known: a drive, a
         volume, a physical disk, and a share that is not "pipe" or "ipc$", without components
         of dots alone. A server that begins with ";" names a redirector, not a server. Below
         these, directories have any name.
  other  names that begin as ours do, and are not pipes of the API
  ours   names of pipes of the API, as csi-proxy-GROUP-VERSION
*/ -}}
{{- define "csi-proxy.pathVariables" -}}
- name: named
  expression: variables.paths.filter(p, p.matches(r'^\\\\[.]\\pipe\\[^\\]*[^\\.? ][^\\]*$')).map(p, p.substring(9))
- name: odd
  expression: >-
    variables.paths.filter(p, p.matches(r'^\s*(\\\\|\\[?][?](\\|$))') && !p.matches(r'^\\\\[.]\\pipe\\[^\\]*[^\\.? ][^\\]*$') && (
    !p.matches(r'^((\\\\[.?]|\\[?][?])\\([a-z]:|volume[{][0-9a-f-]+[}]|physicaldrive[0-9]+|harddiskvolume[0-9]+)|(\\\\|(\\\\[.?]|\\[?][?])\\unc\\)[^\\;?. ][^\\;?]*\\[^\\;?]*[^\\;?. ][^\\;?]*)(\\+[^\\]*[^\\.? ][^\\]*)*\\*$')
    || p.matches(r'^(\\\\|(\\\\[.?]|\\[?][?])\\unc\\)[^\\]+\\(pipe|ipc[$])[.: ]*(\\|$)')))
- name: ours
  expression: variables.named.filter(name, name.matches('^csi-proxy-(disk|filesystem|volume|smb|iscsi|system)-v[0-9][0-9a-z]*$'))
- name: other
  expression: variables.named.filter(name, name.matches('^ *csi-proxy') && !(name in variables.ours))
{{- end }}

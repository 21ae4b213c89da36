{{- define "csi-proxy.fullname" -}}
{{ .Values.fullnameOverride | default "csi-proxy" }}
{{- end }}

{{- define "csi-proxy.labels" -}}
app.kubernetes.io/name: csi-proxy
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The labels by which a DaemonSet selects its pods. They cannot be changed. */ -}}
{{- define "csi-proxy.selector" -}}
{{- if .set.name -}}
app.kubernetes.io/name: csi-proxy-pool
app.kubernetes.io/component: {{ .set.name | quote }}
{{- else -}}
app.kubernetes.io/name: csi-proxy
{{- end }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end }}

{{- /* The values of each DaemonSet, as JSON: those of the chart, and a pool's over them. */ -}}
{{- define "csi-proxy.sets" -}}
{{- $sets := list }}
{{- range $pool := prepend (.Values.pools | default list) dict }}
{{- $set := pick $.Values "image" "kubeletPath" "workingDirs" "extraArgs" "tolerations" "nodeSelector" "affinity" }}
{{- range $key, $value := $pool }}
{{- $_ := set $set $key (eq $key "image" | ternary (mergeOverwrite (deepCopy $.Values.image) (get $pool "image" | default dict)) $value) }}
{{- end }}
{{- $_ := set $set "fullname" (list (include "csi-proxy.fullname" $) $pool.name | compact | join "-") }}
{{- if not $pool.name }}
{{- $_ := set $set "affinity" (include "csi-proxy.affinity" $ | fromJson) }}
{{- end }}
{{- $sets = append $sets $set }}
{{- end }}
{{- toJson $sets }}
{{- end }}

{{- /* The affinity of the DaemonSet that is no pool: it leaves out the nodes of all pools. */ -}}
{{- define "csi-proxy.affinity" -}}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) (.Values.affinity | default dict) }}
{{- range $i, $pool := .Values.pools }}
{{- range $other := slice $.Values.pools 0 $i }}
{{- $apart := false }}
{{- range $key, $value := $pool.nodeSelector }}
{{- $apart = or $apart (and (hasKey $other.nodeSelector $key) (ne $value (get $other.nodeSelector $key))) }}
{{- end }}
{{- if not $apart }}
{{- fail (printf "pools: %s and %s may select one node, where only one csi-proxy can serve; give their nodeSelectors a key with different values" $other.name $pool.name) }}
{{- end }}
{{- end }}
{{- $outside := list }}
{{- range $term := $terms }}
{{- range $key, $value := $pool.nodeSelector }}
{{- $expressions := append ($term.matchExpressions | default list) (dict "key" $key "operator" "NotIn" "values" (list $value)) }}
{{- $outside = append $outside (merge (dict "matchExpressions" $expressions) (omit $term "matchExpressions")) }}
{{- end }}
{{- end }}
{{- $terms = $outside }}
{{- end }}
{{- $affinity := deepCopy (.Values.affinity | default dict) }}
{{- if .Values.pools }}
{{- $affinity = mergeOverwrite $affinity (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms))) }}
{{- end }}
{{- toJson $affinity }}
{{- end }}

{{- define "csi-proxy.image" -}}
{{- $image := .set.image }}
{{- $repository := required "set image.repository: there is no published image of CSI Proxy, so build one and push it to a registry of your own" $image.repository -}}
{{- with (.root.Values.global).imageRegistry }}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") }}
{{- end }}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "csi-proxy.metricsOnLoopback" -}}
{{- if or (hasPrefix "127." .Values.metrics.address) (eq .Values.metrics.address "localhost" "[::1]") }}true{{ end -}}
{{- end }}

{{- /* The address of the metrics, as csi-proxy takes it. */ -}}
{{- define "csi-proxy.metricsAddress" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" }}
{{- $ipv4 := printf "%s([.]%s){3}" $octet $octet }}
{{- $name := "([A-Za-z0-9-]+[.])*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?" }}
{{- $ipv6 := "\\[(::1?|([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}:){1,5}(:[0-9A-Fa-f]{1,4}){0,2})\\]" }}
{{- if not (regexMatch (printf "^(%s|%s|%s)$" $ipv4 $name $ipv6) .Values.metrics.address) }}
{{- fail (printf "metrics.address: %s: want an IPv4 address, a name, or an IPv6 address in brackets, such as [::1]" .Values.metrics.address) }}
{{- end -}}
{{ .Values.metrics.address }}:{{ .Values.metrics.port }}
{{- end }}

{{- /* The command that allows the port of the metrics in Windows Firewall. It succeeds always. */ -}}
{{- define "csi-proxy.firewall" -}}
{{- $rule := printf "rule name=%s-metrics" (include "csi-proxy.fullname" .) -}}
netsh advfirewall firewall delete {{ $rule }} & netsh advfirewall firewall add {{ $rule }} dir=in action=allow protocol=TCP localport={{ .Values.metrics.port }} remoteip={{ .Values.metrics.firewallRule.from | default (list "any") | join "," }} & exit 0
{{- end }}

{{- /* Which groups each service account may use, as JSON. */ -}}
{{- define "csi-proxy.access" -}}
{{- $access := dict }}
{{- range .Values.policy.access }}
{{- $account := printf "%s/%s" .namespace .serviceAccount }}
{{- $_ := set $access $account (concat (get $access $account | default list) .groups | uniq) }}
{{- end }}
{{- toJson $access }}
{{- end }}

{{- /* Why neither config nor extraArgs have a flag, or nothing. */ -}}
{{- define "csi-proxy.ofTheChart" -}}
{{- if eq . "windows-service" -}}
leave it out, because the pod is not a service of Windows
{{- else }}
{{- with get (dict "kubelet-path" "kubeletPath" "working-dir" "workingDirs" "metrics-bind-address" "metrics" "v" "verbosity") . -}}
leave it out and set the value {{ . }}, which the chart gives csi-proxy as a flag, and flags override the file
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if a flag of extraArgs is none that csi-proxy accepts. */ -}}
{{- define "csi-proxy.checkFlag" -}}
{{- $flag := .flag }}
{{- $name := regexReplaceAll "^--?([^=]*).*$" $flag "${1}" }}
{{- $value := contains "=" $flag | ternary (regexReplaceAll "^[^=]*=" $flag "") "" }}
{{- with include "csi-proxy.ofTheChart" $name }}
{{- fail (printf "extraArgs: %s: %s" $flag .) }}
{{- end }}
{{- if and (eq $name "config") .root.Values.config }}
{{- fail "extraArgs: leave -config out, because the value config is the configuration file" }}
{{- end }}
{{- $known := false }}
{{- range $pattern, $names := .root.Files.Get "files/flags.yaml" | fromYaml }}
{{- if has $name $names }}
{{- $known = true }}
{{- if not (or (regexMatch (printf "^(%s)$" $pattern) $value) (and (eq $pattern "true|false") (not (contains "=" $flag)))) }}
{{- fail (printf "extraArgs: %s: want -%s=VALUE with a value that matches %s" $flag $name $pattern) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $known }}
{{- fail (printf "extraArgs: csi-proxy has no flag -%s; docs/run/reference.md lists them" $name) }}
{{- end }}
{{- end }}

{{- define "csi-proxy.quoted" -}}
'{{ . | replace "'" "''" }}'
{{- end }}

{{- /* The configuration file that the value config describes, or nothing. */ -}}
{{- define "csi-proxy.config" -}}
{{- range $key, $value := .Values.config }}
{{- with include "csi-proxy.ofTheChart" $key }}
{{- fail (printf "config.%s: %s" $key .) }}
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
{{ include "csi-proxy.quoted" (kindIs "float64" . | ternary (int64 . | toString) (toString .)) }}
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

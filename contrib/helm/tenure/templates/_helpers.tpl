{{- define "tenure.name" -}}
{{- .Values.name | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "tenure.selector" -}}
app.kubernetes.io/name: {{ include "tenure.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tenure.labels" -}}
{{ include "tenure.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "gateway.labels" -}}
app.kubernetes.io/name: brains-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gateway.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "gateway.toml" -}}
{{- range $key, $value := .Values.settings }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}

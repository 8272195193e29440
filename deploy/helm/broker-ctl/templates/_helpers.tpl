{{- define "broker-ctl.name" -}}
{{- if contains "broker-ctl" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-broker-ctl" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "broker-ctl.selector" -}}
app.kubernetes.io/name: broker-ctl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "broker-ctl.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "broker-ctl.selector" . }}
{{- end }}

{{- define "broker-ctl.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Not empty: the state is in objects of the API server. */}}
{{- define "broker-ctl.ownState" -}}
{{ if and (eq .Values.mode "attach") (eq .Values.pulsar.source "admin") }}yes{{ end }}
{{- end }}

{{- define "broker-ctl.port" -}}
{{ if .Values.tls.existingSecret }}8443{{ else }}8080{{ end }}
{{- end }}

{{- define "broker-ctl.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* Text of broker.conf; keys of .Values.settings come last, and the last of a key counts. */}}
{{- define "broker-ctl.conf" -}}
clusterName={{ .Values.clusterName }}
{{- if include "broker-ctl.ownState" . }}
pulsarStateUrl=kubernetes:{{ include "broker-ctl.name" . }}-state
{{- else }}
metadataStoreUrl={{ .Values.zookeeper.url }}
zookeeperTickTimeMillis={{ .Values.zookeeper.tickTimeMillis }}
{{- end }}
{{- with .Values.zookeeper.existingSecret }}
zookeeperTlsEnabled=true
zookeeperTlsCaFile=/etc/broker-ctl/zookeeper/ca.crt
zookeeperSaslDigestFile=/etc/broker-ctl/zookeeper/sasl
{{- end }}
bindAddress=0.0.0.0
authenticationEnabled=true
tokenSecretKeyFile=/etc/broker-ctl/auth/tokens
superUserRoles={{ join "," .Values.auth.superUserRoles }}
{{- if .Values.tls.existingSecret }}
webServicePort=
webServicePortTls=8443
tlsCertificateFilePath=/etc/broker-ctl/tls/tls.crt
tlsKeyFilePath=/etc/broker-ctl/tls/tls.key
{{- if eq .Values.mode "beside" }}
brokerClientTlsEnabled=true
brokerClientTrustCertsFilePath=/etc/broker-ctl/tls/ca.crt
{{- end }}
{{- else }}
webServicePort=8080
allowCleartextCredentials=true
{{- end }}
{{- if eq .Values.mode "beside" }}
dataPlane=webhook
dataPlaneUrl={{ .Values.broker.url }}
dataPlaneSecretFile=/etc/broker-ctl/dataplane/secret
brokerServicePort={{ .Values.broker.servicePort }}
brokerShutdownTimeoutMs={{ mul .Values.shutdown.handoverSeconds 1000 }}
{{- else }}
dataPlane=pulsar
pulsarAdminUrl={{ .Values.pulsar.adminUrl }}
pulsarAct={{ .Values.pulsar.act }}
{{- with .Values.pulsar.existingSecret }}
pulsarTokenFile=/etc/broker-ctl/pulsar/token
{{- end }}
{{- end }}
loadHistoryDirectory=/var/lib/broker-ctl/history
logFormat=json
{{- range $key, $value := .Values.settings }}
{{ $key }}={{ $value }}
{{- end }}
{{- end }}

{{/* What both kinds of pods have: security, probes, mounts. */}}
{{- define "broker-ctl.podSecurity" -}}
runAsNonRoot: true
{{- range $key, $number := .Values.podSecurity }}
{{- if $number }}
{{ $key }}: {{ int64 $number }}
{{- end }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "broker-ctl.daemon" -}}
name: broker-ctl
image: {{ include "broker-ctl.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [run, -c, /etc/broker-ctl/broker.conf]
env:
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- if eq .Values.mode "beside" }}
  - name: BROKER_CTL_advertisedAddress
    value: "$(POD_NAME).{{ include "broker-ctl.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}"
  {{- with .Values.rack.podLabel }}
  # Empty, which is an unknown rack, where the pod has no such label.
  - name: BROKER_CTL_brokerRack
    valueFrom: {fieldRef: {fieldPath: "metadata.labels['{{ . }}']"}}
  {{- end }}
  {{- end }}
  # For commands in this container, as that of preStop: they may be sent on to the leader.
  - {name: BROKER_CTL_TOKEN_FILE, value: /etc/broker-ctl/auth/tokens}
  - name: BROKER_CTL_TRUSTED_HOSTS
    value: ".{{ include "broker-ctl.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}"
  {{- if .Values.tls.existingSecret }}
  - {name: BROKER_CTL_URL, value: "https://127.0.0.1:8443"}
  - {name: BROKER_CTL_TLS_CA, value: /etc/broker-ctl/tls/ca.crt}
  {{- else }}
  - {name: BROKER_CTL_ALLOW_CLEARTEXT, value: "true"}
  {{- end }}
ports:
  - {name: http, containerPort: {{ include "broker-ctl.port" . }}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
# Without ZooKeeper it waits, and a restart does not help: only a stopped event loop fails /livez.
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "broker-ctl.scheme" . }}}
  periodSeconds: 10
  timeoutSeconds: 3
  initialDelaySeconds: 10
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ include "broker-ctl.scheme" . }}}
  periodSeconds: 5
  timeoutSeconds: 3
{{- if eq .Values.mode "beside" }}
lifecycle:
  preStop:
    exec:
      command:
        - sh
        - -c
        - >-
          timeout {{ .Values.shutdown.drainSeconds }} broker-ctl drain --self --until-restart --wait --yes
          --reason "the pod ends" && touch /lifecycle/drained || true
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: configuration, mountPath: /etc/broker-ctl/broker.conf, subPath: broker.conf, readOnly: true}
  - {name: auth, mountPath: /etc/broker-ctl/auth, readOnly: true}
  {{- if .Values.zookeeper.existingSecret }}
  - {name: zookeeper, mountPath: /etc/broker-ctl/zookeeper, readOnly: true}
  {{- end }}
  {{- if .Values.tls.existingSecret }}
  - {name: tls, mountPath: /etc/broker-ctl/tls, readOnly: true}
  {{- end }}
  {{- if eq .Values.mode "beside" }}
  - {name: dataplane, mountPath: /etc/broker-ctl/dataplane, readOnly: true}
  - {name: lifecycle, mountPath: /lifecycle}
  {{- else if .Values.pulsar.existingSecret }}
  - {name: pulsar, mountPath: /etc/broker-ctl/pulsar, readOnly: true}
  {{- end }}
  - {name: state, mountPath: /var/lib/broker-ctl}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "broker-ctl.volumes" -}}
- {name: configuration, configMap: {name: {{ include "broker-ctl.name" . }}}}
# 0440: for the group of the pod.
- {name: auth, secret: {secretName: {{ .Values.auth.existingSecret }}, defaultMode: 0440}}
{{- with .Values.zookeeper.existingSecret }}
- {name: zookeeper, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- with .Values.tls.existingSecret }}
- {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
- {name: tmp, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "broker-ctl.scheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "broker-ctl.selector" . | nindent 14 }}
  {{- end }}
{{- end }}

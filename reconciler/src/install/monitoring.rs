//! What shows an installation to Prometheus and Grafana: a `PodMonitor`, rules of alerts, and a dashboard.

/// The manifests of Prometheus' operator, with who reads the metrics.
const RULES: &str = include_str!("../../install/monitoring.yaml");

/// The dashboard, as Grafana imports it.
const DASHBOARD: &str = include_str!("../../install/monitoring-dashboard.json");

/// Where the entries of the alerts are, where nobody publishes them.
pub const RUNBOOKS: &str = "reconciler/docs/troubleshooting.md";

/// How the Deployment shows its metrics to others than its own machine.
pub(super) const VARIABLES: &str = "- name: STEPGATE_LISTEN
          value: \"0.0.0.0:8080\"
        - name: STEPGATE_METRICS_AUTHENTICATION
          value: kubernetes";

/// The port that it does so at.
pub(super) const PORT: &str = "- name: metrics
          containerPort: 8080";

/// What carries the dashboard into Grafana: its sidecar takes every ConfigMap with this label.
const CONFIG_MAP: &str = "---
apiVersion: v1
kind: ConfigMap
metadata:
  name: stepgate-dashboard
  namespace: ${NAMESPACE}
  labels:
    app.kubernetes.io/name: stepgate
    grafana_dashboard: \"1\"
data:
  stepgate.json: |
";

/// Who reads the text next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// `kubectl` and kustomize.
    Kubernetes,
    /// Helm, which takes two braces for its own.
    Helm,
}

/// The manifests. What Prometheus and Grafana fill in stands in two braces.
pub(super) fn manifests(reader: Reader) -> String {
    let dashboard: String = DASHBOARD.lines().map(|line| format!("    {line}\n")).collect();
    let text = format!("{RULES}{CONFIG_MAP}{dashboard}");
    match reader {
        Reader::Kubernetes => text.replace("[[", "{{").replace("]]", "}}"),
        Reader::Helm => text.replace("[[", "{{ \"{{\" }}").replace("]]", "{{ \"}}\" }}"),
    }
}

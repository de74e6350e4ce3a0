//! One object of every kind that the installed identity may read, in overlays of two components: the gate of the first asks for each of them
//! alone, the gates after the second for lists.

use serde_json::{Value, json};
use tests::servers::{FLUX_NAMESPACE, definition};

/// The components, in the order of their stages.
const COMPONENTS: [&str; 2] = ["cert-manager", "capi"];

/// A kind that the demo's manifests do not define: group, version, kind, plural, scope.
type Defined = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// One for each API group that gates and backups read, as far as it is not there anyway.
const DEFINED: [Defined; 13] = [
    ("cert-manager.io", "v1", "ClusterIssuer", "clusterissuers", "Cluster"),
    ("cert-manager.io", "v1", "CertificateRequest", "certificaterequests", "Namespaced"),
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", "Namespaced"),
    ("source.toolkit.fluxcd.io", "v1", "OCIRepository", "ocirepositories", "Namespaced"),
    ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", "machinehealthchecks", "Namespaced"),
    ("addons.cluster.x-k8s.io", "v1beta2", "ClusterResourceSet", "clusterresourcesets", "Namespaced"),
    ("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate", "kubeadmconfigtemplates", "Namespaced"),
    ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider", "providers", "Namespaced"),
    (
        "controlplane.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmControlPlaneTemplate",
        "kubeadmcontrolplanetemplates",
        "Namespaced",
    ),
    ("infrastructure.cluster.x-k8s.io", "v1beta2", "VSphereMachineTemplate", "vspheremachinetemplates", "Namespaced"),
    ("ipam.cluster.x-k8s.io", "v1beta2", "IPAddressClaim", "ipaddressclaims", "Namespaced"),
    ("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig", "extensionconfigs", "Cluster"),
    ("anywhere.eks.amazonaws.com", "v1alpha1", "FluxConfig", "fluxconfigs", "Namespaced"),
];

/// Groups whose webhooks are called, with a kind and its plural.
const CALLED: [(&str, &str); 8] = [
    ("cluster.x-k8s.io/v1beta2", "machinehealthchecks"),
    ("addons.cluster.x-k8s.io/v1beta2", "clusterresourcesets"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigtemplates"),
    ("controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanetemplates"),
    ("etcdcluster.cluster.x-k8s.io/v1beta1", "etcdadmclusters"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "vspheremachinetemplates"),
    ("runtime.cluster.x-k8s.io/v1beta2", "extensionconfigs"),
    ("anywhere.eks.amazonaws.com/v1alpha1", "fluxconfigs"),
];

/// Definitions of the kinds that the demo's manifests do not define.
pub fn definitions() -> Vec<Value> {
    DEFINED.map(|(group, version, kind, plural, scope)| definition((group, version, kind, plural), scope)).to_vec()
}

/// The overlays, by path.
pub fn overlays() -> Vec<(String, String)> {
    let overlays = COMPONENTS.map(|component| {
        let mut objects = one_of_each(component);
        if component == COMPONENTS[1] {
            objects.extend(CALLED.into_iter().flat_map(|(version, plural)| {
                [("Validating", "UPDATE"), ("Mutating", "CREATE")]
                    .map(|(kind, operation)| webhook(kind, version, plural, operation))
            }));
            objects.push(webhook("Mutating", "cert-manager.io/v1", "certificaterequests", "CREATE"));
            objects.push(uncalled());
        }
        let text: Vec<String> = objects.iter().map(Value::to_string).collect();
        let kustomization =
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [everything.yaml]\n";
        [
            (format!("overlays/{component}/kustomization.yaml"), kustomization.to_owned()),
            (format!("overlays/{component}/everything.yaml"), text.join("\n---\n")),
        ]
    });
    overlays.into_iter().flatten().collect()
}

fn job_pod() -> Value {
    let container = json!({"name": "a", "image": "example.com/a:v1"});
    json!({"spec": {"restartPolicy": "Never", "containers": [container]}})
}

fn one_of_each(component: &str) -> Vec<Value> {
    let labels = json!({"matchLabels": {"app": "nothing"}});
    let pod = json!({"metadata": {"labels": {"app": "nothing"}}, "spec": {"containers": [{"name": "a", "image": "example.com/a:v1"}]}});
    let role =
        |kind: &str| json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": component}});
    let kinds = [
        ("v1", "ConfigMap", json!({})),
        ("v1", "Secret", json!({})),
        ("v1", "Service", json!({"spec": {"ports": [{"port": 80}]}})),
        ("v1", "ServiceAccount", json!({})),
        ("v1", "ResourceQuota", json!({"spec": {"hard": {"pods": "1k"}}})),
        (
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"replicas": 0, "serviceName": "a", "selector": labels, "template": pod}}),
        ),
        // Suspended, since nobody runs its pods here.
        ("batch/v1", "Job", json!({"spec": {"suspend": true, "template": job_pod()}})),
        ("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", role("Role")),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"rules": []})),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", role("ClusterRole")),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": labels}})),
        ("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 0, "selector": labels}})),
        ("cert-manager.io/v1", "Certificate", json!({})),
        ("cert-manager.io/v1", "Issuer", json!({})),
        ("cert-manager.io/v1", "ClusterIssuer", json!({})),
        ("distro.eks.amazonaws.com/v1alpha1", "Release", json!({})),
        ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", json!({})),
        ("addons.cluster.x-k8s.io/v1beta2", "ClusterResourceSet", json!({})),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", json!({})),
        ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate", json!({})),
        ("etcdcluster.cluster.x-k8s.io/v1beta1", "EtcdadmCluster", json!({})),
        ("infrastructure.cluster.x-k8s.io/v1beta2", "VSphereMachineTemplate", json!({})),
        ("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim", json!({})),
        ("runtime.cluster.x-k8s.io/v1beta2", "ExtensionConfig", json!({})),
        ("anywhere.eks.amazonaws.com/v1alpha1", "FluxConfig", json!({})),
        ("helm.toolkit.fluxcd.io/v2", "HelmRelease", json!({})),
    ];
    let is_cluster_wide = |kind: &str| {
        ["ClusterRole", "ClusterRoleBinding"].contains(&kind)
            || DEFINED.iter().any(|(_, _, known, _, scope)| *known == kind && *scope == "Cluster")
    };
    kinds
        .into_iter()
        .map(|(api_version, kind, mut object)| {
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            object["metadata"] = json!({"name": format!("{component}-other")});
            if !is_cluster_wide(kind) {
                let namespace = if kind == "HelmRelease" { FLUX_NAMESPACE } else { "default" };
                object["metadata"]["namespace"] = json!(namespace);
            }
            object
        })
        .collect()
}

/// A webhook that no dry run proves to be called: what is behind its Service is looked at. [`endpoints`] are there.
fn uncalled() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "uncalled"},
        "webhooks": [{"name": "uncalled.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "capi-other", "namespace": "default", "path": "/", "port": 80}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["things"]}]}]})
}

/// What is ready behind the Service of the webhook that no dry run proves to be called.
pub fn endpoints() -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "capi-other-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "capi-other"}},
        "ports": [{"name": "", "port": 80}], "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]})
}

/// A webhook that is called for one operation on one kind. The Service is one of the demo's; whoever is asked there allows everything.
fn webhook(kind: &str, api_version: &str, plural: &str, operation: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let service = json!({"name": "capi-webhook-service", "namespace": "capi-system", "path": "/"});
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": format!("{plural}-{}", operation.to_lowercase())},
        "webhooks": [{"name": format!("{plural}.{group}"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": service},
            "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [plural]}]}]})
}

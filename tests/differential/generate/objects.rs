//! Objects of a cluster, as people write them.

use serde_json::{Map, Value, json};

use super::draw::Draw;
use super::text::{key, label, odd_key, prose, scalar, word};
use super::workloads;

/// Names that objects share, so that references find something.
pub const NAMES: [&str; 7] = ["web", "api", "db", "cache", "worker", "default", "web-config"];

/// Namespaces that objects are in; empty for none.
pub const NAMESPACES: [&str; 6] = ["", "", "", "default", "prod", "team-a"];

/// One of the names.
pub fn name(draw: &mut Draw) -> String {
    draw.pick(&NAMES).to_owned()
}

/// A map of labels.
pub fn labels(draw: &mut Draw) -> Value {
    let mut map = Map::new();
    for key in draw.some(&["app", "tier", "app.kubernetes.io/name", "env", "a.b/c"], 40) {
        map.insert(key.to_owned(), json!(label(draw)));
    }
    if map.is_empty() {
        map.insert("app".into(), json!(name(draw)));
    }
    if draw.chance(1) {
        map.insert("10".into(), json!("ten"));
    }
    Value::Object(map)
}

/// Metadata with what is usual.
pub fn metadata(draw: &mut Draw, name: &str, namespaced: bool) -> Value {
    let mut map = Map::new();
    map.insert("name".into(), json!(name));
    let namespace = draw.pick(&NAMESPACES);
    if namespaced && !namespace.is_empty() {
        map.insert("namespace".into(), json!(namespace));
    }
    if draw.chance(45) {
        map.insert("labels".into(), labels(draw));
    }
    if draw.chance(30) {
        let mut annotations = Map::new();
        for _ in 0..draw.number(1, 3) {
            annotations.insert(key(draw), json!(prose(draw)));
        }
        map.insert("annotations".into(), Value::Object(annotations));
    }
    if draw.chance(6) {
        map.insert("finalizers".into(), json!(["a.io/one", "b.io/two"]));
    }
    if draw.chance(5) {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": self::name(draw), "uid": "u-1"});
        map.insert("ownerReferences".into(), json!([owner]));
    }
    if draw.chance(4) {
        map.insert("creationTimestamp".into(), Value::Null);
    }
    Value::Object(map)
}

fn data(draw: &mut Draw) -> Value {
    let mut map = Map::new();
    for _ in 0..draw.number(0, 4) {
        map.insert(key(draw), json!(prose(draw)));
    }
    Value::Object(map)
}

/// A tree of anything, for custom resources.
pub fn free(draw: &mut Draw, depth: usize) -> Value {
    match draw.number(0, if depth == 0 { 5 } else { 9 }) {
        0..=5 => scalar(draw),
        6 | 7 => {
            let mut map = Map::new();
            for _ in 0..draw.number(0, 4) {
                let name = if draw.chance(3) { odd_key(draw) } else { json!(key(draw)) };
                map.insert(name.as_str().unwrap_or_default().to_owned(), free(draw, depth - 1));
            }
            Value::Object(map)
        }
        8 => Value::Array((0..draw.number(0, 4)).map(|_| free(draw, depth - 1)).collect()),
        _ => Value::Array(
            (0..draw.number(1, 3))
                .map(|index| json!({"name": format!("n{index}"), "value": free(draw, depth - 1)}))
                .collect(),
        ),
    }
}

fn subjects(draw: &mut Draw) -> Value {
    let mut list = Vec::new();
    for _ in 0..draw.number(1, 3) {
        let mut subject =
            json!({"kind": draw.pick(&["ServiceAccount", "ServiceAccount", "User", "Group"]), "name": name(draw)});
        if draw.chance(50) {
            subject["namespace"] = json!(draw.pick(&["default", "prod", "team-a"]));
        }
        if draw.chance(20) {
            subject["apiGroup"] = json!(draw.pick(&["", "rbac.authorization.k8s.io"]));
        }
        list.push(subject);
    }
    Value::Array(list)
}

fn rules(draw: &mut Draw) -> Value {
    let mut rule = json!({"apiGroups": [""], "resources": [draw.pick(&["configmaps", "secrets", "pods"])], "verbs": ["get", "list"]});
    if draw.chance(50) {
        rule["resourceNames"] = json!([name(draw), name(draw)]);
    }
    json!([rule])
}

fn webhook(draw: &mut Draw) -> Value {
    let mut hook = json!({
        "name": format!("{}.example.com", word(draw)),
        "clientConfig": {"service": {"name": name(draw), "namespace": draw.pick(&["default", "prod", "system"]), "path": "/validate"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}],
    });
    if draw.chance(30) {
        hook["namespaceSelector"] = json!({"matchLabels": labels(draw)});
    }
    hook
}

fn ports(draw: &mut Draw) -> Value {
    let all = [
        json!({"name": "http", "port": 80, "targetPort": "http"}),
        json!({"name": "https", "port": 443, "protocol": "TCP"}),
        json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        json!({"name": "dns-tcp", "port": 53, "protocol": "TCP"}),
        json!({"port": 8080}),
    ];
    let mut some = draw.some(&all, 40);
    if some.is_empty() {
        some.push(json!({"port": 80}));
    }
    json!(some)
}

fn ingress(draw: &mut Draw) -> (Value, Value) {
    let old = draw.chance(25);
    let backend = |draw: &mut Draw| {
        if old {
            json!({"serviceName": name(draw), "servicePort": 80})
        } else {
            json!({"service": {"name": name(draw), "port": {"number": 80}}})
        }
    };
    let path =
        |draw: &mut Draw| json!({"path": format!("/{}", word(draw)), "pathType": "Prefix", "backend": backend(draw)});
    let mut spec = json!({"rules": [{"host": "example.com", "http": {"paths": [path(draw), path(draw)]}}]});
    if draw.chance(40) {
        spec["tls"] = json!([{"hosts": ["example.com"], "secretName": name(draw)}]);
    }
    if draw.chance(30) {
        spec["ingressClassName"] = json!(name(draw));
    }
    if draw.chance(30) {
        let field = if old { "backend" } else { "defaultBackend" };
        spec[field] = backend(draw);
    }
    let version =
        if old { draw.pick(&["networking.k8s.io/v1beta1", "extensions/v1beta1"]) } else { "networking.k8s.io/v1" };
    (json!(version), spec)
}

fn definition(draw: &mut Draw, plural: &str) -> Value {
    let mut spec = json!({
        "group": "example.com",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
        "scope": draw.pick(&["Namespaced", "Cluster"]),
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "description": prose(draw), "default": {"image": "nginx"}}}}}}],
    });
    if draw.chance(50) {
        spec["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": name(draw), "namespace": "default", "path": "/c"}}, "conversionReviewVersions": ["v1"]}});
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural}, "spec": spec})
}

/// Draws one object.
pub fn object(draw: &mut Draw) -> Value {
    let own = name(draw);
    let object =
        |api: &str, kind: &str, metadata: Value| json!({"apiVersion": api, "kind": kind, "metadata": metadata});
    match draw.number(0, 45) {
        0..=7 => workloads::deployment(draw, &own),
        8 | 9 => workloads::stateful_set(draw, &own),
        10 => workloads::daemon_set(draw, &own),
        11 => workloads::job(draw, &own),
        12 | 13 => workloads::cron_job(draw, &own),
        14 => workloads::pod(draw, &own),
        15..=17 => {
            let mut service = object("v1", "Service", metadata(draw, &own, true));
            service["spec"] = json!({"ports": ports(draw), "selector": labels(draw)});
            if draw.chance(10) {
                service["spec"]["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
            }
            service
        }
        18..=21 => {
            let mut map = object("v1", "ConfigMap", metadata(draw, &own, true));
            map["data"] = data(draw);
            if draw.chance(8) {
                map["binaryData"] = json!({"b": "aGVsbG8="});
            }
            if draw.chance(5) {
                map["immutable"] = json!(true);
            }
            map
        }
        22 | 23 => {
            let mut secret = object("v1", "Secret", metadata(draw, &own, true));
            let field = draw.pick(&["data", "stringData"]);
            secret[field] = data(draw);
            secret["type"] = json!("Opaque");
            secret
        }
        24 => {
            let (api, spec) = ingress(draw);
            let mut ingress = object("", "Ingress", metadata(draw, &own, true));
            ingress["apiVersion"] = api;
            ingress["spec"] = spec;
            ingress
        }
        25 | 26 => {
            let mut account = object("v1", "ServiceAccount", metadata(draw, &own, true));
            if draw.chance(40) {
                account["secrets"] = json!([{"name": name(draw)}]);
                account["imagePullSecrets"] = json!([{"name": name(draw)}]);
            }
            account
        }
        27 => {
            let mut role = object("rbac.authorization.k8s.io/v1", "Role", metadata(draw, &own, true));
            role["rules"] = rules(draw);
            role
        }
        28 => {
            let mut role = object("rbac.authorization.k8s.io/v1", "ClusterRole", metadata(draw, &own, false));
            role["rules"] = rules(draw);
            if draw.chance(30) {
                role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels(draw)}]});
            }
            role
        }
        29 | 30 => {
            let cluster = draw.chance(50);
            let kind = if cluster { "ClusterRoleBinding" } else { "RoleBinding" };
            let role = if cluster || draw.chance(30) { "ClusterRole" } else { "Role" };
            let mut binding = object("rbac.authorization.k8s.io/v1", kind, metadata(draw, &own, !cluster));
            binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name(draw)});
            binding["subjects"] = subjects(draw);
            binding
        }
        31 => {
            let own = draw.pick(&["default", "prod", "team-a", "system"]);
            object("v1", "Namespace", metadata(draw, own, false))
        }
        32 => {
            let plural = draw.pick(&["things.example.com", "widgets.example.com"]);
            definition(draw, plural)
        }
        33 => {
            let kind = draw.pick(&["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]);
            let mut hooks = object("admissionregistration.k8s.io/v1", kind, metadata(draw, &own, false));
            hooks["webhooks"] = json!([webhook(draw), webhook(draw)]);
            hooks
        }
        34 => {
            let mut service =
                object("apiregistration.k8s.io/v1", "APIService", metadata(draw, "v1.example.com", false));
            service["spec"] = json!({"group": "example.com", "version": "v1", "service": {"name": name(draw), "namespace": "default"}});
            service
        }
        35 => {
            let mut scaler = object("autoscaling/v2", "HorizontalPodAutoscaler", metadata(draw, &own, true));
            scaler["spec"] = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": draw.pick(&["Deployment", "StatefulSet"]), "name": name(draw)}, "minReplicas": 1, "maxReplicas": 3});
            scaler
        }
        36 => {
            let mut policy = object("networking.k8s.io/v1", "NetworkPolicy", metadata(draw, &own, true));
            policy["spec"] = json!({"podSelector": {"matchLabels": labels(draw)}, "ingress": [{"from": [{"podSelector": {"matchLabels": labels(draw)}}], "ports": [{"port": 80}]}]});
            policy
        }
        37 => {
            let mut budget = object("policy/v1", "PodDisruptionBudget", metadata(draw, &own, true));
            budget["spec"] = json!({"minAvailable": 1, "selector": {"matchLabels": labels(draw)}});
            budget
        }
        38 => {
            let mut claim = object("v1", "PersistentVolumeClaim", metadata(draw, &own, true));
            claim["spec"] = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": name(draw), "volumeName": name(draw)});
            claim
        }
        39 => {
            let mut volume = object("v1", "PersistentVolume", metadata(draw, &own, false));
            volume["spec"] = json!({"capacity": {"storage": "1Gi"}, "storageClassName": name(draw), "claimRef": {"name": name(draw), "namespace": "default"}, "hostPath": {"path": "/data"}});
            volume
        }
        40 => {
            let (api, kind) = draw.pick(&[
                ("storage.k8s.io/v1", "StorageClass"),
                ("scheduling.k8s.io/v1", "PriorityClass"),
                ("networking.k8s.io/v1", "IngressClass"),
            ]);
            let mut class = object(api, kind, metadata(draw, &own, false));
            if kind == "PriorityClass" {
                class["value"] = json!(1000);
            }
            class
        }
        41 => {
            let mut monitor = object("monitoring.coreos.com/v1", "ServiceMonitor", metadata(draw, &own, true));
            monitor["spec"] = json!({"selector": {"matchLabels": labels(draw)}, "endpoints": [{"port": "http"}]});
            monitor
        }
        42 if draw.chance(5) => {
            let mut thing = object("example.com/v1", "Thing", json!({"generateName": format!("{own}-")}));
            thing["spec"] = free(draw, 2);
            thing
        }
        _ => {
            let kind = draw.pick(&["Thing", "Widget"]);
            let mut thing = object("example.com/v1", kind, metadata(draw, &own, true));
            thing["spec"] = json!({
                "free": free(draw, 3),
                "template": workloads::template(draw),
                "configName": name(draw),
                "items": [{"name": "one", "ref": {"name": name(draw)}}, {"name": "two", "ref": {"name": name(draw)}}],
                "image": "nginx:1.0",
                "text": prose(draw),
            });
            thing
        }
    }
}

//! Pods and what makes them.

use serde_json::{Value, json};

use super::draw::Draw;
use super::objects::{labels, metadata, name};
use super::text::{prose, scalar, word};

/// Images with all parts that an image can have.
pub const IMAGES: [&str; 12] = [
    "nginx",
    "nginx:1.0",
    "docker.io/library/nginx:1.0",
    "registry.example.com:5000/team/app",
    "registry.example.com:5000/team/app:v1",
    "app@sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3",
    "app:v1@sha256:24a0c4b4a4c0eb97a1aabb8e29f18e917d05abfe1b7a7c07857230879ce7d3d3",
    "busybox",
    "my.app/x-y_z",
    "$(IMAGE)",
    "team/nginx",
    "nginx-extra:1",
];

fn env(draw: &mut Draw) -> Value {
    let mut list = Vec::new();
    for variable in draw.some(&["A", "B", "LOG_LEVEL", "URL", "PASSWORD"], 45) {
        list.push(match draw.number(0, 6) {
            0 => json!({"name": variable, "valueFrom": {"configMapKeyRef": {"name": name(draw), "key": word(draw)}}}),
            1 => json!({"name": variable, "valueFrom": {"secretKeyRef": {"name": name(draw), "key": word(draw)}}}),
            2 => json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            3 => json!({"name": variable, "value": "$(NAME)-$(OTHER)"}),
            4 => json!({"name": variable, "value": scalar(draw)}),
            _ => json!({"name": variable, "value": prose(draw)}),
        });
    }
    json!(list)
}

fn container(draw: &mut Draw, own: &str) -> Value {
    let mut container = json!({"name": own, "image": draw.pick(&IMAGES)});
    if draw.chance(60) {
        container["env"] = env(draw);
    }
    if draw.chance(25) {
        container["envFrom"] = json!([{"configMapRef": {"name": name(draw)}}, {"secretRef": {"name": name(draw)}}]);
    }
    if draw.chance(50) {
        let all = [
            json!({"containerPort": 80, "name": "http"}),
            json!({"containerPort": 443, "protocol": "TCP"}),
            json!({"containerPort": 53, "protocol": "UDP"}),
            json!({"containerPort": 53, "protocol": "TCP"}),
            json!({"containerPort": 8080, "name": "metrics", "protocol": "TCP"}),
        ];
        container["ports"] = json!(draw.some(&all, 45));
    }
    if draw.chance(30) {
        container["args"] = json!([prose(draw), "--name=$(NAME)", format!("--{}", word(draw))]);
    }
    if draw.chance(20) {
        container["command"] = json!(["sh", "-c", prose(draw)]);
    }
    if draw.chance(30) {
        container["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/config"}, {"name": "data", "mountPath": "/data", "subPath": "$(NAME)"}]);
    }
    if draw.chance(25) {
        container["resources"] =
            json!({"limits": {"cpu": draw.pick(&["1", "100m", "0.5"]), "memory": "1Gi"}, "requests": {"cpu": 1}});
    }
    if draw.chance(15) {
        container["livenessProbe"] = json!({"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10});
    }
    container
}

fn volumes(draw: &mut Draw) -> Value {
    let all = [
        json!({"name": "config", "configMap": {"name": name(draw)}}),
        json!({"name": "data", "persistentVolumeClaim": {"claimName": name(draw)}}),
        json!({"name": "secret", "secret": {"secretName": name(draw)}}),
        json!({"name": "tmp", "emptyDir": {}}),
        json!({"name": "all", "projected": {"sources": [{"configMap": {"name": name(draw)}}, {"secret": {"name": name(draw)}}]}}),
        json!({"name": "image", "image": {"reference": "nginx:1.0", "pullPolicy": "Always"}}),
        json!({"name": "csi", "csi": {"driver": "x", "nodePublishSecretRef": {"name": name(draw)}}}),
    ];
    json!(draw.some(&all, 40))
}

fn pod_spec(draw: &mut Draw) -> Value {
    let mut spec = json!({"containers": [container(draw, "main")]});
    if draw.chance(35) {
        let sidecar = container(draw, "sidecar");
        spec["containers"] = json!([spec["containers"][0], sidecar]);
    }
    if draw.chance(20) {
        spec["initContainers"] = json!([container(draw, "init")]);
    }
    if draw.chance(55) {
        spec["volumes"] = volumes(draw);
    }
    if draw.chance(35) {
        let field = draw.pick(&["serviceAccountName", "serviceAccount"]);
        spec[field] = json!(name(draw));
    }
    if draw.chance(20) {
        spec["imagePullSecrets"] = json!([{"name": name(draw)}]);
    }
    if draw.chance(12) {
        spec["tolerations"] = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "effect": "NoSchedule"}]);
    }
    if draw.chance(12) {
        spec["hostAliases"] = json!([{"ip": "10.0.0.1", "hostnames": ["a", "b"]}]);
    }
    if draw.chance(12) {
        spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": labels(draw)}}, {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    }
    if draw.chance(12) {
        spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": labels(draw)}}}], "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": labels(draw)}}]}});
    }
    if draw.chance(8) {
        spec["priorityClassName"] = json!(name(draw));
    }
    spec
}

/// A pod template.
pub fn template(draw: &mut Draw) -> Value {
    let mut template = json!({"spec": pod_spec(draw)});
    if draw.chance(75) {
        template["metadata"] = json!({"labels": labels(draw)});
        if draw.chance(20) {
            template["metadata"]["annotations"] = json!({"note": prose(draw)});
        }
    }
    template
}

fn workload(draw: &mut Draw, api: &str, kind: &str, own: &str) -> Value {
    let mut spec = json!({"template": template(draw)});
    if draw.chance(80) {
        spec["selector"] = json!({"matchLabels": labels(draw)});
    }
    if draw.chance(60) {
        spec["replicas"] = json!(draw.number(0, 5));
    }
    json!({"apiVersion": api, "kind": kind, "metadata": metadata(draw, own, true), "spec": spec})
}

/// A Deployment.
pub fn deployment(draw: &mut Draw, own: &str) -> Value {
    let api = if draw.chance(90) { "apps/v1" } else { draw.pick(&["apps/v1beta1", "extensions/v1beta1"]) };
    let mut object = workload(draw, api, "Deployment", own);
    if draw.chance(15) {
        object["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%"}});
    }
    object
}

/// A `StatefulSet`.
pub fn stateful_set(draw: &mut Draw, own: &str) -> Value {
    let mut object = workload(draw, "apps/v1", "StatefulSet", own);
    object["spec"]["serviceName"] = json!(name(draw));
    if draw.chance(60) {
        object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data", "labels": labels(draw)}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": name(draw)}}]);
    }
    object
}

/// A `DaemonSet` or `ReplicaSet`.
pub fn daemon_set(draw: &mut Draw, own: &str) -> Value {
    let kind = draw.pick(&["DaemonSet", "ReplicaSet"]);
    workload(draw, "apps/v1", kind, own)
}

/// A Job.
pub fn job(draw: &mut Draw, own: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(draw, own, true), "spec": {"template": template(draw)}})
}

/// A `CronJob`.
pub fn cron_job(draw: &mut Draw, own: &str) -> Value {
    let api = draw.pick(&["batch/v1", "batch/v1beta1"]);
    json!({"apiVersion": api, "kind": "CronJob", "metadata": metadata(draw, own, true), "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template(draw)}}}})
}

/// A Pod.
pub fn pod(draw: &mut Draw, own: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(draw, own, true), "spec": pod_spec(draw)})
}

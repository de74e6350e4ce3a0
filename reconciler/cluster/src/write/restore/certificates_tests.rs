use super::*;
use crate::write::backup::BackupHeader;

fn backup(cloud_config: &str) -> Backup {
    let header: BackupHeader =
        serde_json::from_value(json!({"rollout": "0123456789ab", "takenAt": "2026-03-01T12:00:00Z",
        "objects": 1, "readBack": true, "location": "memory"}))
        .unwrap();
    let objects = vec![
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "depot-control-plane", "namespace": "n", "uid": "plane", "labels": {"cluster.x-k8s.io/cluster-name": "depot"}}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"bootstrap": {"dataSecretName": "a-data"}}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-data", "namespace": "n"},
            "data": {"value": STANDARD.encode(cloud_config)}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "depot-ca", "namespace": "n"}, "data": {"tls.crt": "b3RoZXI="}}),
    ];
    Backup { header, objects }
}

fn cloud_config() -> String {
    let file = |(_, certificate, private): (&str, &str, &str)| {
        [certificate, private]
            .map(|name| format!("-   path: {FOLDER}{name}\n    content: |\n      content of {name}\n"))
            .concat()
    };
    format!("## template: jinja\n#cloud-config\nwrite_files:\n{}", FILES.map(file).concat())
}

fn refusal(backup: Backup, machine: &str) -> String {
    with_certificates_of(backup, "depot", machine).unwrap_err().to_string()
}

#[test]
fn bootstrap_data_of_a_control_plane_has_every_certificate() {
    let found = with_certificates_of(backup(&cloud_config()), "depot", "a").unwrap();
    let secret = |purpose: &str| {
        let name = format!("depot-{purpose}");
        let known: Vec<&Value> = found.objects.iter().filter(|object| key(object).name == name).collect();
        assert_eq!(known.len(), 1, "{name}");
        assert_eq!(text(known[0], "/metadata/ownerReferences/0/uid"), "plane");
        let plain = |field: &str| {
            let encoded = text(known[0], &format!("/data/{field}"));
            String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
        };
        (plain("tls.crt"), plain("tls.key"))
    };
    for (purpose, certificate, private) in FILES {
        assert_eq!(secret(purpose), (format!("content of {certificate}\n"), format!("content of {private}\n")));
    }
}

#[test]
fn a_machine_without_certificates_is_named() {
    assert!(refusal(backup(&cloud_config()), "b").contains("there is no such Machine"));
    let worker = refusal(backup("#cloud-config\nwrite_files: []\n"), "a");
    assert!(worker.contains("name a machine of the control plane"), "{worker}");
    let mut gone = backup(&cloud_config());
    gone.objects.retain(|object| key(object).name != "a-data");
    assert!(refusal(gone, "a").contains("is gone"));
    assert!(refusal(backup("{"), "a").contains("no cloud-config"));
}

//! A node pool as a `MachineDeployment` with its templates.

use serde_json::{Map, Value, json};

use super::part::Part;
use super::{Source, reference, template};
use crate::fleet::kinds::tanzu::records::Material;

const CORE: (&str, &str) = ("cluster.x-k8s.io", "v1beta2");
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONFIG: &str = "KubeadmConfigTemplate";

impl Source<'_> {
    pub(super) fn pool(&self, pool: &str, part: &Part, material: &Material<'_>) -> [Value; 3] {
        let name = format!("{}-{pool}", self.name);
        let (machine_template, machines) = self.machine_template(&name, part, material);
        let mut bootstrap = json!({"joinConfiguration": {"nodeRegistration": self.registration(material, part)}});
        if let Some(bootstrap) = bootstrap.as_object_mut() {
            bootstrap.extend(disks(part));
        }
        let bootstrap = json!({"spec": bootstrap});
        let bootstrap_name = template::name(&name, &bootstrap);
        let configuration =
            self.object((BOOTSTRAP, "v1beta2"), CONFIG, &bootstrap_name, &json!({"template": bootstrap}));
        let kind = self.infrastructure.template_kind();
        let mut machine = json!({
            "clusterName": self.name,
            "version": material.version.kubernetes_build(),
            "bootstrap": {"configRef": reference(BOOTSTRAP, CONFIG, &bootstrap_name)},
            "infrastructureRef": reference(self.infrastructure.group(), kind, &machine_template),
        });
        if let Some(machine) = machine.as_object_mut() {
            machine.extend(part.drain.map(|limit| ("deletion".to_owned(), json!({"nodeDrainTimeoutSeconds": limit}))));
            machine.extend(part.failure_domain.as_ref().map(|zone| ("failureDomain".to_owned(), zone.as_str().into())));
        }
        let mut spec = json!({"clusterName": self.name, "template": {"spec": machine}});
        if let (Some(replicas), Some(spec)) = (part.replicas, spec.as_object_mut()) {
            spec.insert("replicas".to_owned(), replicas.into());
        }
        let mut deployment = self.object(CORE, "MachineDeployment", &name, &spec);
        if let Some(metadata) = deployment.get_mut("metadata").and_then(Value::as_object_mut) {
            let labels = json!({"cluster.x-k8s.io/cluster-name": self.name, crate::tanzu::GROUP_LABEL: pool});
            metadata.insert("labels".to_owned(), labels);
        }
        [machines, configuration, deployment]
    }
}

/// File systems on the disks of a machine, in the order in which its volumes are attached behind the one of the system.
pub(super) fn disks(part: &Part) -> Map<String, Value> {
    let mounted = part.volumes.iter().zip('b'..='z').filter_map(|(volume, letter)| {
        volume.path.as_ref().map(|path| (format!("/dev/sd{letter}"), volume.name.as_str(), path.as_str()))
    });
    let (mut partitions, mut filesystems, mut mounts) = (Vec::new(), Vec::new(), Vec::new());
    for (device, name, path) in mounted {
        let label: String = name.chars().take(16).collect();
        partitions.push(json!({"device": device, "layout": true, "overwrite": false, "tableType": "gpt"}));
        filesystems.push(json!({"device": format!("{device}1"), "filesystem": "ext4", "label": label}));
        mounts.push(json!([format!("LABEL={label}"), path]));
    }
    if mounts.is_empty() {
        return Map::new();
    }
    Map::from_iter([
        ("diskSetup".to_owned(), json!({"partitions": partitions, "filesystems": filesystems})),
        ("mounts".to_owned(), mounts.into()),
    ])
}

//! The objects of an infrastructure provider.

use policy::TanzuInfrastructure;
use serde_json::{Map, Value, json};

use super::part::Part;
use super::{Source, template};
use crate::fleet::kinds::tanzu::records::Material;

/// Whose machines they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Infrastructure {
    Vsphere,
    InMemory,
}

impl Infrastructure {
    pub fn of(chosen: TanzuInfrastructure) -> Self {
        match chosen {
            TanzuInfrastructure::Vsphere => Self::Vsphere,
            TanzuInfrastructure::InMemory => Self::InMemory,
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Self::Vsphere => "vmware.infrastructure.cluster.x-k8s.io",
            Self::InMemory => "infrastructure.cluster.x-k8s.io",
        }
    }

    pub fn cluster_kind(self) -> &'static str {
        match self {
            Self::Vsphere => "VSphereCluster",
            Self::InMemory => "DevCluster",
        }
    }

    pub fn template_kind(self) -> &'static str {
        match self {
            Self::Vsphere => "VSphereMachineTemplate",
            Self::InMemory => "DevMachineTemplate",
        }
    }

    fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::Vsphere => (self.group(), "v1beta1"),
            Self::InMemory => (self.group(), "v1beta2"),
        }
    }
}

impl Source<'_> {
    /// The infrastructure of the cluster itself; its controllers find the address.
    pub(super) fn infrastructure_cluster(&self) -> Value {
        let infrastructure = self.infrastructure;
        let spec = match infrastructure {
            Infrastructure::Vsphere => json!({}),
            Infrastructure::InMemory => json!({"backend": {"inMemory": {}}}),
        };
        let mut object = self.object(infrastructure.api(), infrastructure.cluster_kind(), self.name, &spec);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // The development provider notes a port beside the annotations that there are, and fails where there are none.
            metadata.insert("annotations".to_owned(), json!({"stepgate.dev/rendered-from": "TanzuKubernetesCluster"}));
        }
        object
    }

    /// The template of machines, named by what they are made from, and its name.
    pub(super) fn machine_template(&self, base: &str, part: &Part, material: &Material<'_>) -> (String, Value) {
        let machine = machine(part, material);
        let template = match self.infrastructure {
            Infrastructure::Vsphere => json!({"spec": machine}),
            // Machines in memory have no image and no class: what they stand for is noted beside them.
            Infrastructure::InMemory => {
                let up = json!({"provisioning": {"startupDuration": "1s"}});
                let backend = json!({"inMemory": {"vm": up, "node": up, "apiServer": up, "etcd": up}});
                let annotations = json!({crate::tanzu::MACHINE: template::canonical(&machine)});
                json!({"metadata": {"annotations": annotations}, "spec": {"backend": backend}})
            }
        };
        let name = template::name(base, &template);
        let spec = json!({"template": template});
        let object = self.object(self.infrastructure.api(), self.infrastructure.template_kind(), &name, &spec);
        (name, object)
    }
}

/// A machine of vSphere in its supervisor mode.
fn machine(part: &Part, material: &Material<'_>) -> Value {
    let mut machine = Map::new();
    machine.insert("imageName".to_owned(), material.image.as_str().into());
    let texts = [("className", &part.class), ("storageClass", &part.storage_class)];
    for (key, text) in texts {
        machine.extend(text.as_ref().map(|text| (key.to_owned(), Value::from(text.as_str()))));
    }
    let volumes = part.volumes.iter().map(|volume| {
        let mut known = json!({"name": volume.name, "capacity": {"storage": volume.capacity}});
        if let (Some(class), Some(known)) = (&volume.storage_class, known.as_object_mut()) {
            known.insert("storageClass".to_owned(), class.as_str().into());
        }
        known
    });
    let volumes: Vec<Value> = volumes.collect();
    if !volumes.is_empty() {
        machine.insert("volumes".to_owned(), volumes.into());
    }
    machine.into()
}

//! The `KubeadmControlPlane` and the template of its machines.

use bundles::tanzu::ComponentImage;
use serde_json::{Map, Value, json};

use super::infrastructure::Infrastructure;
use super::part::Part;
use super::pools::disks;
use super::{Source, reference};

pub(super) const GROUP: &str = "controlplane.cluster.x-k8s.io";
pub(super) const KIND: &str = "KubeadmControlPlane";

/// Leaves kube-proxy of the cluster as it is.
const SKIP_KUBE_PROXY: &str = "controlplane.cluster.x-k8s.io/skip-kube-proxy";

/// Where etcd keeps its data.
const ETCD: &str = "/var/lib/etcd";

impl Source<'_> {
    /// Its name.
    pub(super) fn plane_name(&self) -> String {
        format!("{}-control-plane", self.name)
    }

    pub(super) fn control_plane(&self, part: &Part) -> [Value; 2] {
        let (template, object) = self.machine_template(&self.plane_name(), part, self.plane);
        let mut machine = json!({
            "infrastructureRef": reference(self.infrastructure.group(), self.infrastructure.template_kind(), &template),
        });
        if let (Some(limit), Some(machine)) = (part.drain, machine.as_object_mut()) {
            machine.insert("deletion".to_owned(), json!({"nodeDrainTimeoutSeconds": limit}));
        }
        let mut registration = self.registration(self.plane, part);
        // A file system of its own begins with a folder in it, which kubeadm would take for data of another cluster.
        let is_mounted = part.volumes.iter().any(|volume| volume.path.as_deref() == Some(ETCD));
        if let (true, Some(registration)) = (is_mounted, registration.as_object_mut()) {
            registration.insert("ignorePreflightErrors".to_owned(), json!(["DirAvailable--var-lib-etcd"]));
        }
        let registration = json!({"nodeRegistration": registration});
        let mut kubeadm = disks(part);
        kubeadm.insert("initConfiguration".to_owned(), registration.clone());
        kubeadm.insert("joinConfiguration".to_owned(), registration);
        // An empty one is refused.
        let configuration = self.cluster_configuration();
        if !configuration.is_empty() {
            kubeadm.insert("clusterConfiguration".to_owned(), configuration.into());
        }
        let spec = json!({
            "replicas": part.replicas.unwrap_or(1),
            "version": self.plane.version.kubernetes_build(),
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "machineTemplate": {"spec": machine},
            "kubeadmConfigSpec": kubeadm,
        });
        let mut plane = self.object((GROUP, "v1beta2"), KIND, &self.plane_name(), &spec);
        if let (Infrastructure::InMemory, Some(metadata)) =
            (self.infrastructure, plane.get_mut("metadata").and_then(Value::as_object_mut))
        {
            // Its kube-proxy has the version of Kubernetes as tag. A build of a distribution is none, and the controller would
            // fail at it for ever.
            metadata.insert("annotations".to_owned(), json!({SKIP_KUBE_PROXY: ""}));
        }
        [object, plane]
    }

    /// The images that kubeadm runs, as the image of the release has them.
    fn cluster_configuration(&self) -> Map<String, Value> {
        let components = &self.plane.components;
        let mut configuration = Map::new();
        let image = |image: &ComponentImage| json!({"imageRepository": image.repository, "imageTag": image.tag});
        if let Some(kubernetes) = &components.kubernetes {
            configuration.insert("imageRepository".to_owned(), kubernetes.repository.as_str().into());
        }
        if let Some(etcd) = &components.etcd {
            configuration.insert("etcd".to_owned(), json!({"local": image(etcd)}));
        }
        configuration.extend(components.coredns.as_ref().map(|dns| ("dns".to_owned(), image(dns))));
        configuration
    }
}

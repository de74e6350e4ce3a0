//! Which objects are there.

use rollout::{ObjectOrigin, ObjectPresence, ObjectReference};

use super::State;
use crate::desired::{DesiredObject, DesiredPlainObject, DesiredState};
use crate::fault::Fault;

impl State {
    /// Presence of every object that the branch has ever named, and of those that were asked for.
    pub(super) fn observed_objects(&self) -> Vec<ObjectPresence> {
        let presence = |reference: &ObjectReference| ObjectPresence {
            present: self.is_present(reference),
            generation: self.objects.get(reference).map(|known| known.generation),
            reference: reference.clone(),
            deleting: false,
            unfinished: None,
            origin: self.origin(reference),
        };
        self.named.iter().map(presence).collect()
    }

    /// Whether it is one of the Secrets that Cluster API makes of a cluster.
    fn is_trusted(&self, reference: &ObjectReference) -> bool {
        let purpose = reference.name.strip_prefix(&self.cluster).and_then(|rest| rest.strip_prefix('-'));
        reference.namespace.as_ref() == Some(&self.namespace)
            && purpose.is_some_and(|purpose| ["ca", "etcd", "proxy", "sa", "kubeconfig"].contains(&purpose))
    }

    fn is_lost(&self, reference: &ObjectReference) -> bool {
        self.is_active(Fault::CertificatesLost) && reference.name == format!("{}-ca", self.cluster)
    }

    /// Where a Secret is from; whoever has lost one puts it back from a backup.
    fn origin(&self, reference: &ObjectReference) -> Option<ObjectOrigin> {
        let is_there = reference.kind == "Secret" && self.is_trusted(reference) && !self.is_lost(reference);
        let (again, made_by) = if self.restored { (" again", "stepgate") } else { ("", "manager") };
        is_there.then(|| ObjectOrigin {
            uid: format!("{}{again}", reference.name),
            owners: vec!["KubeadmControlPlane".to_owned()],
            made_by: Some(made_by.to_owned()),
        })
    }

    fn is_present(&self, reference: &ObjectReference) -> bool {
        let same = |namespace: &String, name: &String| {
            reference.namespace.as_ref() == Some(namespace) && reference.name == *name
        };
        match reference.kind.as_str() {
            "Deployment" => {
                self.deployments.iter().any(|known| !known.deleted && same(&known.spec.namespace, &known.spec.name))
            }
            "DaemonSet" => {
                self.daemon_sets.iter().any(|known| !known.deleted && same(&known.spec.namespace, &known.spec.name))
            }
            "CustomResourceDefinition" => self.definitions.iter().any(|known| known.name == reference.name),
            "KubeadmControlPlane" => {
                self.control_plane.iter().any(|known| same(&known.spec.namespace, &known.spec.name))
            }
            "MachineDeployment" => self.present_workers().any(|known| same(&known.spec.namespace, &known.spec.name)),
            "EtcdadmCluster" => self.etcd.iter().any(|known| same(&known.spec.namespace, &known.spec.name)),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                self.webhooks.iter().any(|known| known.spec.kind == reference.kind && known.spec.name == reference.name)
            }
            "Secret" if self.is_trusted(reference) => !self.is_lost(reference),
            _ => self.objects.contains_key(reference),
        }
    }
}

/// Which object a plain one is.
pub(super) fn reference(spec: &DesiredPlainObject) -> ObjectReference {
    of(&spec.api_version, &spec.kind, spec.namespace.as_ref(), &spec.name)
}

fn of(api_version: &str, kind: &str, namespace: Option<&String>, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.cloned(),
        name: name.to_owned(),
    }
}

/// Every object of a state, in the words of `kubectl`.
pub(super) fn named_objects(desired: &DesiredState) -> impl Iterator<Item = ObjectReference> + '_ {
    desired.objects().map(|object| match object {
        DesiredObject::Deployment(spec) => of("apps/v1", "Deployment", Some(&spec.namespace), &spec.name),
        DesiredObject::DaemonSet(spec) => of("apps/v1", "DaemonSet", Some(&spec.namespace), &spec.name),
        DesiredObject::CustomResourceDefinition(spec) => {
            of("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &spec.name)
        }
        DesiredObject::Webhook(spec) => of("admissionregistration.k8s.io/v1", &spec.kind, None, &spec.name),
        DesiredObject::ControlPlane { machines, .. } => of(
            "controlplane.cluster.x-k8s.io/v1beta2",
            "KubeadmControlPlane",
            Some(&machines.namespace),
            &machines.name,
        ),
        DesiredObject::Workers { machines, .. } => {
            of("cluster.x-k8s.io/v1beta2", "MachineDeployment", Some(&machines.namespace), &machines.name)
        }
        DesiredObject::Etcd(machines) => {
            of("etcdcluster.cluster.x-k8s.io/v1beta1", "EtcdadmCluster", Some(&machines.namespace), &machines.name)
        }
        DesiredObject::Object(spec) => reference(spec),
    })
}

//! The kinds that are read, and the versions in which they are understood.

use kube::core::{ApiResource, GroupVersionKind};

/// A kind of Kubernetes object with the versions that this program understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// API group, empty for the core group.
    pub(crate) group: &'static str,
    /// Kind.
    pub(crate) kind: &'static str,
    /// Plural name, as in the path.
    pub(crate) plural: &'static str,
    /// Versions understood here, the preferred one first.
    pub(crate) versions: &'static [&'static str],
}

impl Kind {
    /// This kind in `version`.
    pub(crate) fn resource(&self, version: &str) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, version, self.kind), self.plural)
    }

    /// What it goes by where a reading says that it failed: gates ask by this name.
    pub(crate) fn unread_name(&self) -> &'static str {
        if *self == EKSA_CLUSTER { rollout::EKSA_CLUSTERS } else { self.kind }
    }

    /// Whether the kind is part of Kubernetes itself and hence always served.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(
            self.group,
            "" | "apps" | "apiextensions.k8s.io" | "admissionregistration.k8s.io" | "coordination.k8s.io"
        )
    }
}

macro_rules! kinds {
    ($($(#[$documentation:meta])* $name:ident: $group:literal $kind:literal $plural:literal [$($version:literal),+];)*) => {
        $($(#[$documentation])* pub(crate) const $name: Kind = Kind { group: $group, kind: $kind, plural: $plural, versions: &[$($version),+] };)*
    };
}

kinds! {
    /// Workloads.
    DEPLOYMENT: "apps" "Deployment" "deployments" ["v1"];
    /// Workloads, one pod a node.
    DAEMON_SET: "apps" "DaemonSet" "daemonsets" ["v1"];
    /// Workloads with pods that have names of their own.
    STATEFUL_SET: "apps" "StatefulSet" "statefulsets" ["v1"];
    /// Pods: running image digests, kube-vip.
    POD: "" "Pod" "pods" ["v1"];
    /// Nodes.
    NODE: "" "Node" "nodes" ["v1"];
    /// Secrets: each by its name, the kubeconfig of a workload cluster foremost.
    SECRET: "" "Secret" "secrets" ["v1"];
    /// `ServiceAccounts`: the pull secrets of their pods.
    SERVICE_ACCOUNT: "" "ServiceAccount" "serviceaccounts" ["v1"];
    /// Services: what webhooks are served by.
    SERVICE: "" "Service" "services" ["v1"];
    /// What is ready behind a Service.
    ENDPOINT_SLICE: "discovery.k8s.io" "EndpointSlice" "endpointslices" ["v1"];
    /// Namespaces.
    NAMESPACE: "" "Namespace" "namespaces" ["v1"];
    /// What direct apply keeps its inventory in.
    CONFIG_MAP: "" "ConfigMap" "configmaps" ["v1"];
    /// `CustomResourceDefinitions`.
    CUSTOM_RESOURCE_DEFINITION: "apiextensions.k8s.io" "CustomResourceDefinition" "customresourcedefinitions" ["v1"];
    /// Leases: kube-vip's says which node holds the control plane's address.
    LEASE: "coordination.k8s.io" "Lease" "leases" ["v1"];
    /// Admission webhooks that check.
    VALIDATING_WEBHOOK_CONFIGURATION: "admissionregistration.k8s.io" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" ["v1"];
    /// Admission webhooks that change.
    MUTATING_WEBHOOK_CONFIGURATION: "admissionregistration.k8s.io" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" ["v1"];
    /// Cluster API clusters.
    CLUSTER: "cluster.x-k8s.io" "Cluster" "clusters" ["v1beta2", "v1beta1"];
    /// Control planes of kubeadm.
    KUBEADM_CONTROL_PLANE: "controlplane.cluster.x-k8s.io" "KubeadmControlPlane" "kubeadmcontrolplanes" ["v1beta2", "v1beta1"];
    /// Worker groups.
    MACHINE_DEPLOYMENT: "cluster.x-k8s.io" "MachineDeployment" "machinedeployments" ["v1beta2", "v1beta1"];
    /// Worker groups whose machines the infrastructure makes.
    MACHINE_POOL: "cluster.x-k8s.io" "MachinePool" "machinepools" ["v1beta2", "v1beta1"];
    /// Generations of a worker group.
    MACHINE_SET: "cluster.x-k8s.io" "MachineSet" "machinesets" ["v1beta2", "v1beta1"];
    /// Machines.
    MACHINE: "cluster.x-k8s.io" "Machine" "machines" ["v1beta2", "v1beta1"];
    /// External etcd of EKS Anywhere.
    ETCDADM_CLUSTER: "etcdcluster.cluster.x-k8s.io" "EtcdadmCluster" "etcdadmclusters" ["v1beta2", "v1beta1"];
    /// EKS Anywhere's clusters, which Cluster API's objects follow from.
    EKSA_CLUSTER: "anywhere.eks.amazonaws.com" "Cluster" "clusters" ["v1alpha1"];
    /// Clusters of Tanzu, which a Supervisor's controllers carry out.
    TANZU_CLUSTER: "run.tanzu.vmware.com" "TanzuKubernetesCluster" "tanzukubernetesclusters" ["v1alpha3", "v1alpha2", "v1alpha1"];
    /// Cluster API clusters, for where their servers are: that is said alike in every version.
    CLUSTER_ENDPOINT: "cluster.x-k8s.io" "Cluster" "clusters" ["v1beta2", "v1beta1", "v1alpha4", "v1alpha3"];
    /// Machines of a Supervisor, of which few fields are read: these are the same in every version.
    TANZU_MACHINE: "cluster.x-k8s.io" "Machine" "machines" ["v1beta2", "v1beta1", "v1alpha4", "v1alpha3", "v1alpha2"];
    /// Flux: git sources.
    GIT_REPOSITORY: "source.toolkit.fluxcd.io" "GitRepository" "gitrepositories" ["v1", "v1beta2"];
    /// Flux: OCI sources.
    OCI_REPOSITORY: "source.toolkit.fluxcd.io" "OCIRepository" "ocirepositories" ["v1", "v1beta2"];
    /// Flux: what is applied.
    KUSTOMIZATION: "kustomize.toolkit.fluxcd.io" "Kustomization" "kustomizations" ["v1", "v1beta2"];
    /// How many pods of a workload may be away at once.
    POD_DISRUPTION_BUDGET: "policy" "PodDisruptionBudget" "poddisruptionbudgets" ["v1"];
    /// Volumes: whether they lie on one node.
    PERSISTENT_VOLUME: "" "PersistentVolume" "persistentvolumes" ["v1"];
    /// Claims of volumes.
    PERSISTENT_VOLUME_CLAIM: "" "PersistentVolumeClaim" "persistentvolumeclaims" ["v1"];
    /// Volumes on their way to nodes.
    VOLUME_ATTACHMENT: "storage.k8s.io" "VolumeAttachment" "volumeattachments" ["v1"];
    /// What has happened.
    EVENT: "" "Event" "events" ["v1"];
    /// APIs that others serve.
    API_SERVICE: "apiregistration.k8s.io" "APIService" "apiservices" ["v1"];
    /// What scales workloads.
    HORIZONTAL_POD_AUTOSCALER: "autoscaling" "HorizontalPodAutoscaler" "horizontalpodautoscalers" ["v2"];
    /// Nodes that are upgraded in place.
    NODE_KUBEADM_UPGRADE: "inplace.stepgate.dev" "NodeKubeadmUpgrade" "nodekubeadmupgrades" ["v1alpha1"];
    /// kubeadm's configuration of a machine.
    KUBEADM_CONFIG: "bootstrap.cluster.x-k8s.io" "KubeadmConfig" "kubeadmconfigs" ["v1beta2", "v1beta1"];
    /// Machines in memory, or in containers.
    DEV_MACHINE: "infrastructure.cluster.x-k8s.io" "DevMachine" "devmachines" ["v1beta2", "v1beta1"];
    /// Machines of vSphere in its supervisor mode.
    VSPHERE_SUPERVISOR_MACHINE: "vmware.infrastructure.cluster.x-k8s.io" "VSphereMachine" "vspheremachines" ["v1beta2", "v1beta1"];
    /// What has unhealthy machines replaced.
    MACHINE_HEALTH_CHECK: "cluster.x-k8s.io" "MachineHealthCheck" "machinehealthchecks" ["v1beta2", "v1beta1"];
    /// Upgrades in place: a control plane.
    CONTROL_PLANE_UPGRADE: "inplace.stepgate.dev" "ControlPlaneKubeadmUpgrade" "controlplanekubeadmupgrades" ["v1alpha1"];
    /// Upgrades in place: a worker group.
    WORKERS_UPGRADE: "inplace.stepgate.dev" "WorkersKubeadmUpgrade" "workerskubeadmupgrades" ["v1alpha1"];
    /// EKS Anywhere: upgrades in place, a control plane.
    EKSA_CONTROL_PLANE_UPGRADE: "anywhere.eks.amazonaws.com" "ControlPlaneUpgrade" "controlplaneupgrades" ["v1alpha1"];
    /// EKS Anywhere: upgrades in place, a worker group.
    EKSA_WORKERS_UPGRADE: "anywhere.eks.amazonaws.com" "MachineDeploymentUpgrade" "machinedeploymentupgrades" ["v1alpha1"];
    /// EKS Anywhere: upgrades in place, one node.
    EKSA_NODE_UPGRADE: "anywhere.eks.amazonaws.com" "NodeUpgrade" "nodeupgrades" ["v1alpha1"];
    /// Runtime Extensions of Cluster API.
    EXTENSION_CONFIG: "runtime.cluster.x-k8s.io" "ExtensionConfig" "extensionconfigs" ["v1beta2", "v1alpha1"];
    /// Flux: charts that are installed.
    HELM_RELEASE: "helm.toolkit.fluxcd.io" "HelmRelease" "helmreleases" ["v2"];
}

use super::*;
use crate::objects::from_yaml;

fn object(text: &str) -> DynamicObject {
    let document = yaml::parse(text, &yaml::Limits::default()).unwrap().remove(0);
    serde_json::from_value(from_yaml(&document.root)).unwrap()
}

fn cluster(version: &str, rest: &str) -> TanzuCluster {
    let text = format!(
        "apiVersion: run.tanzu.vmware.com/{version}\nkind: TanzuKubernetesCluster\nmetadata: {{name: t, namespace: n}}\n{rest}"
    );
    tanzu_cluster(&object(&text), version)
}

/// Name, state, version and message of each add-on.
fn addons_of(cluster: &TanzuCluster) -> Vec<(&str, TanzuAddonState, Option<&str>, Option<&str>)> {
    let addons = cluster.addons.iter();
    addons.map(|addon| (addon.name.as_str(), addon.state, addon.version.as_deref(), addon.message.as_deref())).collect()
}

#[test]
fn add_ons_are_a_map_first_and_a_list_later() {
    let first = cluster(
        "v1alpha1",
        "spec: {distribution: {version: v1.21, fullVersion: v1.21.6+vmware.1-tkg.1}}\nstatus:\n  phase: updating\n  addons:\n    \
         cni: {name: calico, status: applied, version: v3.11}\n    dns: {name: CoreDNS, status: error, lastErrorMessage: no route}\n    \
         authsvc: {name: authsvc, status: unmanaged}\n    psp: {status: pending}\n",
    );
    assert_eq!((first.phase.as_deref(), first.release.as_deref()), (Some("updating"), Some("v1.21.6+vmware.1-tkg.1")));
    assert_eq!(
        addons_of(&first),
        [
            ("authsvc", TanzuAddonState::Unmanaged, None, None),
            ("calico", TanzuAddonState::Applied, Some("v3.11"), None),
            ("CoreDNS", TanzuAddonState::Error, None, Some("no route")),
            ("psp", TanzuAddonState::Pending, None, None),
        ]
    );
    let later = cluster(
        "v1alpha3",
        "spec: {topology: {controlPlane: {tkr: {reference: {name: v1.27.11---vmware.1-tkg.2}}}}}\nstatus:\n  addons:\n  - {name: \
         antrea, type: CNI, version: 1.11, conditions: [{type: Provisioned, status: 'True'}]}\n  - {name: metrics-server, type: \
         MetricsServer, conditions: [{type: Provisioned, status: 'False', reason: ProvisioningFailed, severity: Warning, message: \
         bad}]}\n  - {name: pvcsi, type: CSI, conditions: [{type: Provisioned, status: 'False', reason: AddonUnManaged, severity: \
         Info}]}\n  - {name: cpi, type: CPI}\n",
    );
    assert_eq!(later.release.as_deref(), Some("v1.27.11---vmware.1-tkg.2"));
    let states: Vec<TanzuAddonState> = later.addons.iter().map(|addon| addon.state).collect();
    let (applied, error) = (TanzuAddonState::Applied, TanzuAddonState::Error);
    // In the order of their roles: CNI, CPI, CSI, MetricsServer.
    assert_eq!(states, [applied, TanzuAddonState::Pending, TanzuAddonState::Unmanaged, error]);
}

#[test]
fn ready_fails_by_its_severity_alone() {
    for (severity, failure) in [("Error", Some("NodePoolsFailed: no room")), ("Info", None), ("Warning", None)] {
        let read = cluster(
            "v1alpha2",
            &format!(
                "status: {{conditions: [{{type: Ready, status: 'False', severity: {severity}, reason: NodePoolsFailed, message: \
                 no room}}]}}\n"
            ),
        );
        assert_eq!(read.failure.as_deref(), failure, "{severity}");
        assert!(read.conditions.contains_key("Ready"));
    }
}

#[test]
fn images_tell_versions_in_annotations_or_in_their_status() {
    let distribution = "{\"distribution\":{\"version\":\"v1.21.6+vmware.1-tkg.1\"},\"kubernetes\":{\"version\":\"v1.21.6+vmware.1\"},\
                        \"coredns\":{\"version\":\"v1.8.0_vmware.5\"}}";
    let property = |name: &str| format!("vmware-system.guest.kubernetes.{name}");
    let (kind, calico) = (property("distribution.image.version"), property("addons.calico"));
    let (csi, broken) = (property("addons.pvcsi"), property("addons.antrea"));
    let old = format!(
        "apiVersion: vmoperator.vmware.com/v1alpha1\nkind: VirtualMachineImage\nmetadata:\n  name: i\n  annotations:\n    {kind}: \
         '{distribution}'\n    {calico}: '{{\"version\":\"v3.19\",\"type\":\"inline\",\"value\":\"a: b\"}}'\n    {csi}: \
         '{{\"type\":\"inline\"}}'\n    {broken}: '{{'\n"
    );
    let new = format!(
        "apiVersion: vmoperator.vmware.com/v1alpha2\nkind: VirtualMachineImage\nmetadata: {{name: i}}\nstatus:\n  \
         vmwareSystemProperties:\n  - {{key: {kind}, value: '{distribution}'}}\n  - {{key: {calico}, value: \
         '{{\"version\":\"v3.19\"}}'}}\n  - {{key: {csi}, value: '{{}}'}}\n"
    );
    for text in [old, new] {
        let image = tanzu_image(&object(&text)).unwrap();
        assert_eq!(image.release, "v1.21.6+vmware.1-tkg.1");
        assert_eq!(
            (image.coredns.as_deref(), image.kubernetes.as_deref()),
            (Some("v1.8.0_vmware.5"), Some("v1.21.6+vmware.1"))
        );
        let addons: Vec<(&str, Option<&str>)> =
            image.addons.iter().map(|(name, version)| (name.as_str(), version.as_deref())).collect();
        assert_eq!(addons, [("calico", Some("v3.19")), ("pvcsi", None)]);
    }
    let other = "apiVersion: vmoperator.vmware.com/v1alpha1\nkind: VirtualMachineImage\nmetadata: {name: i}\n";
    assert_eq!(tanzu_image(&object(other)), None);
}

#[test]
fn a_machine_is_made_of_what_its_infrastructure_object_says() {
    let machine = |reference: &str| {
        object(&format!(
            "apiVersion: cluster.x-k8s.io/v1alpha3\nkind: Machine\nmetadata: {{name: m, namespace: n, labels: \
             {{topology.cluster.x-k8s.io/deployment-name: a}}}}\nspec: {{{reference}}}\n"
        ))
    };
    let infrastructure = object(
        "apiVersion: infrastructure.cluster.vmware.com/v1alpha3\nkind: WCPMachine\nmetadata: {name: w, namespace: n}\nspec: \
         {className: small, storageClass: gold, volumes: [{name: etcd, capacity: {storage: 4Gi}}]}\n",
    );
    let named = |name: &str| {
        machine(&format!(
            "infrastructureRef: {{apiVersion: infrastructure.cluster.vmware.com/v1alpha3, kind: WCPMachine, name: {name}}}"
        ))
    };
    let all = [infrastructure];
    let known = hardware(&named("w"), &all).unwrap();
    assert_eq!((known.found, known.pool.as_deref()), (true, Some("a")));
    assert_eq!((known.class.as_deref(), known.storage_class.as_deref()), (Some("small"), Some("gold")));
    assert_eq!(known.volumes, [("etcd".to_owned(), "4Gi".to_owned())]);
    assert!(!hardware(&named("other"), &all).unwrap().found);
    assert_eq!(hardware(&machine(""), &all), None);
}

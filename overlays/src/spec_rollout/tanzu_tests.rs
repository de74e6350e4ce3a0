use crate::testing::memory;
use crate::{
    ClusterSpec, ClusterStage, Fleet, SpecStage, cluster_stages, cluster_stages_back, immutable_changes, read_fleet,
    spec_tree,
};

const BASE: &str = "apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesCluster
metadata: {name: t, namespace: tenants}
spec:
  topology:
    controlPlane: {replicas: 3, vmClass: small, tkr: {reference: {name: v1.26.5---vmware.2-tkg.1}}}
    nodePools:
    - {name: a, replicas: 2, vmClass: small, tkr: {reference: {name: v1.26.5---vmware.2-tkg.1}}}
    - {name: b, replicas: 2, vmClass: small, tkr: {reference: {name: v1.26.5---vmware.2-tkg.1}}}
  settings: {network: {cni: {name: antrea}, pods: {cidrBlocks: [10.0.0.0/16]}}}
";

fn fleet(text: &str) -> Fleet {
    read_fleet(&memory(&[("t.yaml", text)]))
}

fn cluster(fleet: &Fleet) -> &ClusterSpec {
    fleet.cluster("t").unwrap()
}

fn steps(old: &str, new: &str, back: bool) -> Vec<ClusterStage> {
    let (old, new) = (fleet(old), fleet(new));
    let (before, after) = (spec_tree(&cluster(&old).files), spec_tree(&cluster(&new).files));
    let of = if back { cluster_stages_back } else { cluster_stages };
    let stages = of(&new, &before, &after, cluster(&new));
    assert!(of(&new, &after, &after, cluster(&new)).is_empty());
    stages
}

/// The stage that commits, and those that follow it.
fn concerned(old: &str, new: &str, back: bool) -> Vec<String> {
    let stages = steps(old, new, back);
    assert_eq!(stages.len(), 1);
    let name = |stage: &SpecStage| match stage {
        SpecStage::Addons => "addons".to_owned(),
        SpecStage::ControlPlane => "control-plane".to_owned(),
        SpecStage::Workers(name) => format!("workers/{name}"),
        SpecStage::Etcd | SpecStage::Addon(_) => panic!("{stage:?} is not a stage of Tanzu"),
    };
    std::iter::once(&stages[0].stage).chain(&stages[0].moves).map(name).collect()
}

#[test]
fn one_commit_has_the_stages_that_it_concerns() {
    let next = BASE.replace("v1.26.5---vmware.2", "v1.27.11---vmware.1");
    let all = ["addons", "control-plane", "workers/a", "workers/b"];
    assert_eq!(concerned(BASE, &next, false), all);
    let class = BASE.replace("{name: b, replicas: 2, vmClass: small", "{name: b, replicas: 2, vmClass: large");
    assert_eq!(concerned(BASE, &class, false), ["workers/b"]);
    let plane = BASE.replace("replicas: 3, vmClass: small", "replicas: 3, vmClass: large");
    assert_eq!(concerned(BASE, &plane, false), ["control-plane"]);
    let gone =
        BASE.lines().filter(|line| !line.contains("name: b,")).map(|line| format!("{line}\n")).collect::<String>();
    assert_eq!(concerned(BASE, &gone, false), ["workers/b"]);
    let proxy = BASE.replace("network: {", "network: {proxy: {httpProxy: 'http://p'}, ");
    assert_eq!(concerned(BASE, &proxy, false), ["control-plane", "workers/a", "workers/b"]);
    // On the way down, and back, what is made last goes first.
    let down = ["workers/a", "workers/b", "control-plane", "addons"];
    assert_eq!(concerned(&next, BASE, false), down);
    assert_eq!(concerned(&next, BASE, true), ["workers/b", "workers/a", "control-plane", "addons"]);
}

#[test]
fn what_a_supervisor_refuses_to_change_is_told_before() {
    let deployed = spec_tree(&cluster(&fleet(BASE)).files);
    for (old, new, part) in [
        ("10.0.0.0/16", "10.1.0.0/16", "spec.settings.network.pods.cidrBlocks"),
        ("{name: antrea}", "{name: calico}", "spec.settings.network.cni.name"),
        ("replicas: 3", "replicas: 1", "spec.topology.controlPlane.replicas goes from 3 to 1"),
    ] {
        let text = BASE.replace(old, new);
        let files = memory(&[("t.yaml", text.as_str())]);
        let told = immutable_changes(&deployed, cluster(&read_fleet(&files)), &files);
        assert!(told.iter().any(|problem| problem.is_error() && problem.message.contains(part)), "{part}: {told:?}");
    }
    let files = memory(&[("t.yaml", BASE)]);
    assert_eq!(immutable_changes(&deployed, cluster(&fleet(BASE)), &files), []);
}

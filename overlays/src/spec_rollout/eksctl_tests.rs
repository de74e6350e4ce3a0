use crate::eksctl::eksctl_target;
use crate::testing::memory;
use crate::{ClusterSpec, ClusterStage, Fleet, RenderedTree, SpecStage, cluster_stages, read_fleet, spec_tree};

const BEFORE: &str = "\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata:
  name: shop
  region: eu-west-1
  version: '1.31' # once a quarter
addons:
  - name: coredns
    version: v1.11.3-eksbuild.1
  - {name: kube-proxy, version: v1.31.1-eksbuild.1}
managedNodeGroups:
  # takes what nobody else wants
  - name: ng-shared-1-31
    instanceType: m6i.large
    minSize: 2
  - name: logging-1-31-gen3
    minSize: 1
nodeGroups:
- {name: \"istio-1-31\", desiredCapacity: 2} # first
";

const POLICY: &str = "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\napply: pipeline\n\
                      clusters: {shop: {workerOrder: [istio, others, logging]}}\n";

fn fleet(text: &str) -> Fleet {
    let fleet = read_fleet(&memory(&[("stepgate.yaml", POLICY), ("aws/shop.yaml", text)]));
    assert_eq!(fleet.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    fleet
}

fn deployed(text: &str) -> RenderedTree {
    spec_tree(&fleet(text).cluster("shop").unwrap().files)
}

fn wanted(text: &str, deployed: &RenderedTree) -> ClusterSpec {
    let fleet = fleet(text);
    let cluster = fleet.cluster("shop").unwrap();
    eksctl_target(cluster, deployed).unwrap().unwrap_or_else(|| cluster.clone())
}

fn stages(from: &RenderedTree, to: &str) -> Vec<ClusterStage> {
    let cluster = wanted(to, from);
    cluster_stages(&fleet(to), from, &spec_tree(&cluster.files), &cluster)
}

fn name(stage: &SpecStage) -> String {
    match stage {
        SpecStage::Etcd => "etcd".to_owned(),
        SpecStage::Addons => "addons".to_owned(),
        SpecStage::ControlPlane => "control-plane".to_owned(),
        SpecStage::Addon(name) => format!("addons/{name}"),
        SpecStage::Workers(name) => format!("workers/{name}"),
    }
}

fn names(stages: &[ClusterStage]) -> Vec<String> {
    stages.iter().map(|stage| name(&stage.stage)).collect()
}

fn text(stage: &ClusterStage) -> String {
    String::from_utf8(stage.tree.files.values().next().unwrap().to_vec()).unwrap()
}

fn raised() -> String {
    BEFORE.replace("'1.31'", "'1.32'").replace("v1.11.3", "v1.11.4").replace("v1.31.1-eksbuild.1", "v1.32.0-eksbuild.2")
}

#[test]
fn each_group_comes_beside_the_one_that_it_replaces() {
    let found = stages(&deployed(BEFORE), &raised());
    assert_eq!(
        names(&found),
        [
            "control-plane",
            "addons/kube-proxy",
            "addons/coredns",
            "workers/istio-1-32",
            "workers/istio-1-31",
            "workers/ng-shared-1-32",
            "workers/ng-shared-1-31",
            "workers/logging-1-32",
            "workers/logging-1-31-gen3",
        ]
    );
    assert_eq!(text(&found[0]), BEFORE.replace("'1.31'", "'1.32'"), "byte for byte but for the version");
    let istio = text(&found[3]);
    assert!(istio.contains("- {name: \"istio-1-32\", desiredCapacity: 2} # first\n- {name: \"istio-1-31\""), "{istio}");
    assert!(!text(&found[4]).contains("istio-1-31"));
    let shared = text(&found[5]);
    let both = "  # takes what nobody else wants\n  - name: ng-shared-1-32\n    instanceType: m6i.large\n    minSize: 2\n  - \
                name: ng-shared-1-31\n    instanceType: m6i.large\n    minSize: 2\n  - name: logging-1-31-gen3\n";
    assert!(shared.contains(both), "{shared}");
    let last = raised().replace("ng-shared-1-31", "ng-shared-1-32").replace("istio-1-31", "istio-1-32");
    assert_eq!(text(found.last().unwrap()), last.replace("logging-1-31-gen3", "logging-1-32"));
}

#[test]
fn each_step_once_deployed_gives_the_rest_with_the_same_bytes() {
    let next = BEFORE.replace("'1.31'", "'1.32'").replace("nodeGroups:\n- {", "nodeGroups:\n- {labels: {a: b}, ");
    let added = format!("{}- {{name: gpu-1-32, minSize: 1}}\n", raised());
    let without = BEFORE.split("nodeGroups:\n- ").next().unwrap().to_owned();
    for to in [raised(), next, added, without] {
        let all = stages(&deployed(BEFORE), &to);
        for (index, stage) in all.iter().enumerate() {
            let rest = stages(&stage.tree, &to);
            assert_eq!(names(&rest), names(&all[index + 1..]));
            for (found, expected) in rest.iter().zip(&all[index + 1..]) {
                assert_eq!(text(found), text(expected));
            }
        }
    }
}

#[test]
fn on_the_way_down_nodes_go_before_the_control_plane() {
    let found = stages(&deployed(&BEFORE.replace("1.31'", "1.32'").replace("-1-31", "-1-32")), BEFORE);
    let found = names(&found);
    assert_eq!(found.last().map(String::as_str), Some("control-plane"), "{found:?}");
    assert_eq!(found[0], "workers/istio-1-31");
}

#[test]
fn a_rebuild_replaces_one_group_alone() {
    let to = BEFORE.replace("logging-1-31-gen3", "logging-1-31-gen4");
    assert_eq!(names(&stages(&deployed(BEFORE), &to)), ["workers/logging-1-31-gen4", "workers/logging-1-31-gen3"]);
}

#[test]
fn nothing_is_renamed_before_it_is_recorded() {
    let fleet = fleet(&raised());
    assert_eq!(eksctl_target(fleet.cluster("shop").unwrap(), &RenderedTree::new()), Ok(None));
}

use super::*;
use crate::testing::fixture;
use crate::{Files, MemoryFiles, read_fleet};

fn spec(repository: &str, cluster: &str, edits: &[(&str, &str)]) -> ClusterSpec {
    let mut files = MemoryFiles::new();
    let original = fixture(repository);
    for entry in original.paths().iter() {
        let mut text = String::from_utf8(original.read(&entry.path).unwrap().to_vec()).unwrap();
        for (from, to) in edits {
            text = text.replace(from, to);
        }
        files.insert(entry.path.clone(), text.into_bytes());
    }
    read_fleet(&files).cluster(cluster).unwrap().clone()
}

fn text(tree: &RenderedTree, path: &str) -> String {
    String::from_utf8(tree.get(path).unwrap().to_vec()).unwrap()
}

fn names(stages: &[ClusterStage]) -> Vec<String> {
    let name = |stage: &ClusterStage| match &stage.stage {
        SpecStage::Etcd => "etcd".to_owned(),
        SpecStage::Addons => "addons".to_owned(),
        SpecStage::ControlPlane => "control-plane".to_owned(),
        SpecStage::Addon(name) => format!("addons/{name}"),
        SpecStage::Workers(group) => format!("workers/{group}"),
    };
    stages.iter().map(name).collect()
}

/// Every step, once deployed, gives the remaining steps with the same trees; the last has the bytes of people.
fn resumes(before: &ClusterSpec, after: &ClusterSpec, order: &[&str]) -> Vec<ClusterStage> {
    resumes_in(before, after, order, false)
}

fn resumes_in(before: &ClusterSpec, after: &ClusterSpec, order: &[&str], back: bool) -> Vec<ClusterStage> {
    let found = stages(&spec_tree(&before.files), &spec_tree(&after.files), after, order, back);
    for (index, stage) in found.iter().enumerate() {
        let rest = stages(&stage.tree, &spec_tree(&after.files), after, order, back);
        let trees = |stages: &[ClusterStage]| stages.iter().map(|stage| stage.tree.clone()).collect::<Vec<_>>();
        assert_eq!(names(&rest), names(&found[index + 1..]), "after {:?}", stage.stage);
        assert_eq!(trees(&rest), trees(&found[index + 1..]), "after {:?}", stage.stage);
    }
    if let Some(last) = found.last() {
        assert_eq!(last.tree, spec_tree(&after.files));
    }
    found
}

const FILE: &str = "cluster/eksa-cluster.yaml";

#[test]
fn nothing_to_do_gives_no_step_and_a_new_cluster_gives_one() {
    let before = spec("repositories/eks-anywhere", "management", &[]);
    assert_eq!(stages(&spec_tree(&before.files), &spec_tree(&before.files), &before, &["md-0"], false), []);
    let new = cluster_stages(&Fleet::default(), &RenderedTree::new(), &spec_tree(&before.files), &before);
    assert_eq!(names(&new), ["control-plane"]);
    assert_eq!(new[0].tree, spec_tree(&before.files));
}

#[test]
fn a_kubernetes_version_moves_etcd_and_control_plane_together_then_groups() {
    let before = spec("repositories/eks-anywhere", "management", &[]);
    let after = spec(
        "repositories/eks-anywhere",
        "management",
        &[("kubernetesVersion: \"1.30\"", "kubernetesVersion: \"1.31\""), ("ubuntu-1.30", "ubuntu-1.31")],
    );
    let stages = resumes(&before, &after, &["md-0"]);
    assert_eq!(names(&stages), ["etcd", "workers/md-0"]);
    assert_eq!(stages.iter().map(|stage| !stage.moves.is_empty()).collect::<Vec<_>>(), [true, false]);
    // The templates of both move with the version, never before it: each rolls once.
    let plane = text(&stages[0].tree, FILE);
    assert!(
        plane.contains("    - name: md-0   # the first group\n      kubernetesVersion: \"1.30\"\n      count: 2\n"),
        "{plane}"
    );
    assert!(plane.contains("  kubernetesVersion: \"1.31\"\n  managementCluster:"));
    assert!(plane.starts_with("# The management cluster. Comments and \"quotes\""));
    assert_eq!(plane.matches("ubuntu-1.31").count(), 2);
    let changes: Vec<_> =
        stages[1].changes.iter().map(|change| (change.object.as_str(), change.field.as_str())).collect();
    assert_eq!(
        changes,
        [
            ("Cluster default/management", "spec.workerNodeGroupConfigurations[md-0].kubernetesVersion"),
            ("VSphereMachineConfig default/management-worker", "spec.template"),
        ]
    );
}

#[test]
fn what_no_member_of_etcd_is_made_from_moves_without_etcd() {
    let before = spec("repositories/eks-anywhere", "management", &[]);
    let of = |from: &str, to: &str| {
        let after = spec("repositories/eks-anywhere", "management", &[(from, to)]);
        let stages = resumes(&before, &after, &["md-0"]);
        (names(&stages), !stages[0].moves.is_empty())
    };
    let only = |name: &str, together: bool| (vec![name.to_owned()], together);
    assert_eq!(
        of("      host: 198.51.100.10\n", "      host: 198.51.100.10\n    labels: {a: b}\n"),
        only("control-plane", false)
    );
    let etcd = "  externalEtcdConfiguration:\n    count: ";
    assert_eq!(of(&format!("{etcd}3"), &format!("{etcd}5")), only("etcd", true));
    assert_eq!(of("  network: /Berlin/network/nodes", "  network: /Berlin/network/more"), only("etcd", true));
    assert_eq!(of("    name: bundles-1\n", "    name: bundles-2\n"), only("etcd", true));
}

const EXTERNAL: &str = "\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a, namespace: n}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: a}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: VSphereCluster, name: a}
  managedExternalEtcdRef: {apiVersion: etcdcluster.cluster.x-k8s.io/v1beta1, kind: EtcdadmCluster, name: a-etcd}
---
apiVersion: etcdcluster.cluster.x-k8s.io/v1beta1
kind: EtcdadmCluster
metadata:
  name: a-etcd # members
  namespace: n
spec:
  replicas: 3
  etcdadmConfigSpec: {cloudInitConfig: {version: 3.5.15}}
  infrastructureTemplate: {kind: VSphereMachineTemplate, name: etcd-1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: etcd-1, namespace: n}
spec: {template: {spec: {template: ubuntu-1.30}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata:
  name: a
  namespace: n
  annotations:
    team: ours # first
spec:
  replicas: 3
  version: v1.30.2
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: a-md, namespace: n}
spec: {clusterName: a, replicas: 2, template: {spec: {version: v1.30.2}}}
";

fn of_text(text: &str) -> ClusterSpec {
    let mut files = MemoryFiles::new();
    files.insert(RepoPath::new("clusters/a/c.yaml").unwrap(), text.as_bytes().to_vec());
    let fleet = read_fleet(&files);
    fleet.cluster("a").unwrap_or_else(|| panic!("{:?}", fleet.problems)).clone()
}

#[test]
fn members_come_with_their_template_while_the_control_plane_is_paused() {
    let target = EXTERNAL.replace("1.30", "1.31").replace("etcd-1", "etcd-2").replace("3.5.15", "3.5.21");
    let flow = |text: &str| {
        let text = text.replace(
            "metadata:\n  name: a-etcd # members\n  namespace: n\n",
            "metadata: {name: a-etcd, namespace: n}\n",
        );
        text.replace(
            "metadata:\n  name: a\n  namespace: n\n  annotations:\n    team: ours # first\n",
            "metadata: {name: a, namespace: n, annotations: {team: ours}}\n",
        )
    };
    for (before, after) in [(EXTERNAL.to_owned(), target.clone()), (flow(EXTERNAL), flow(&target))] {
        let stages = resumes(&of_text(&before), &of_text(&after), &["a-md"]);
        assert_eq!(names(&stages), ["etcd", "control-plane", "workers/a-md"]);
        let etcd = text(&stages[0].tree, "cluster/c.yaml");
        for said in
            ["name: etcd-2", "ubuntu-1.31", "version: 3.5.21", "etcdcluster.cluster.x-k8s.io/upgrading: \"true\""]
        {
            assert!(etcd.contains(said), "{said}: {etcd}");
        }
        assert_eq!((etcd.matches("v1.30.2").count(), etcd.matches("v1.31.2").count()), (2, 0), "{etcd}");
        for said in ["cluster.x-k8s.io/paused: \"stepgate", "skip-pause-cp-managed-etcd: \"true\""] {
            assert_eq!(etcd.matches(said).count(), 1, "{said}: {etcd}");
        }
        assert!(!etcd.contains("Printed by Stepgate"), "{etcd}");
        // People's bytes come back with the control plane.
        let plane = text(&stages[1].tree, "cluster/c.yaml");
        assert!(!plane.contains("paused") && !plane.contains("upgrading"), "{plane}");
    }
}

#[test]
fn a_file_without_a_final_line_end_goes_on_from_each_of_its_steps() {
    let target = EXTERNAL.replace("1.30", "1.31").replace("etcd-1", "etcd-2").replace("3.5.15", "3.5.21");
    for (before, after) in
        [(EXTERNAL.trim_end(), target.trim_end()), (EXTERNAL.trim_end(), &target), (EXTERNAL, target.trim_end())]
    {
        let stages = resumes(&of_text(before), &of_text(after), &["a-md"]);
        assert_eq!(names(&stages), ["etcd", "control-plane", "workers/a-md"]);
    }
}

#[test]
fn a_change_of_etcd_alone_pauses_the_control_plane_until_members_are_new() {
    let stages = resumes(&of_text(EXTERNAL), &of_text(&EXTERNAL.replace("3.5.15", "3.5.21")), &["a-md"]);
    assert_eq!(names(&stages), ["etcd", "control-plane"]);
    // Nothing of etcd changes: nothing is paused.
    let stages = resumes(&of_text(EXTERNAL), &of_text(&EXTERNAL.replace("v1.30.2", "v1.31.0")), &["a-md"]);
    assert_eq!(names(&stages), ["control-plane", "workers/a-md"]);
    assert!(!text(&stages[0].tree, "cluster/c.yaml").contains("paused"));
    // A change that goes back half-way leaves no mark behind.
    let there = resumes(&of_text(EXTERNAL), &of_text(&EXTERNAL.replace("3.5.15", "3.5.21")), &["a-md"]);
    let back = stages_from(&there[0].tree, &of_text(EXTERNAL));
    assert_eq!(names(&back), ["etcd", "control-plane"]);
    assert_eq!(back[1].tree, spec_tree(&of_text(EXTERNAL).files));
}

fn stages_from(deployed: &RenderedTree, after: &ClusterSpec) -> Vec<ClusterStage> {
    stages(deployed, &spec_tree(&after.files), after, &["a-md"], false)
}

#[test]
fn a_lower_version_moves_etcd_right_before_the_control_plane() {
    let lower = EXTERNAL.replace("v1.30.2", "v1.29.1").replace("3.5.15", "3.5.10");
    let stages = resumes(&of_text(EXTERNAL), &of_text(&lower), &["a-md"]);
    assert_eq!(names(&stages), ["workers/a-md", "etcd", "control-plane"]);
}

#[test]
fn a_group_with_its_own_version_is_not_pinned_and_the_order_is_the_teams() {
    let before = spec("repositories/eks-anywhere", "workload-1", &[]);
    let after = spec(
        "repositories/eks-anywhere",
        "workload-1",
        &[
            ("kubernetesVersion: '1.30'", "kubernetesVersion: '1.31'"),
            ("kubernetesVersion: '1.29'", "kubernetesVersion: '1.30'"),
        ],
    );
    let stages = resumes(&before, &after, &["md-1", "md-0"]);
    assert_eq!(names(&stages), ["control-plane", "workers/md-1", "workers/md-0"]);
    let plane = text(&stages[0].tree, FILE);
    assert!(plane.contains("    name: md-0\n    kubernetesVersion: '1.30'\n"), "{plane}");
    assert!(plane.contains("    kubernetesVersion: '1.29'\n"), "{plane}");
    let first = text(&stages[1].tree, FILE);
    assert_eq!(first.matches("kubernetesVersion: '1.30'").count(), 2, "{first}");
}

#[test]
fn groups_come_and_go_at_their_own_step() {
    let before = spec("repositories/eks-anywhere", "workload-1", &[]);
    let added = spec(
        "repositories/eks-anywhere",
        "workload-1",
        &[(
            "  - count: 3\n    name: md-1\n",
            "  - count: 1\n    name: md-2\n    machineGroupRef: {kind: VSphereMachineConfig, name: workload-1-a}\n  - count: 3\n    name: md-1\n",
        )],
    );
    let stages = resumes(&before, &added, &["md-0", "md-1", "md-2"]);
    assert_eq!(names(&stages), ["workers/md-2"]);
    let stages = resumes(&added, &before, &["md-0", "md-1"]);
    assert_eq!(names(&stages), ["workers/md-2"]);
}

#[test]
fn a_lower_version_moves_groups_first() {
    let before = spec("repositories/eks-anywhere", "workload-1", &[]);
    let after =
        spec("repositories/eks-anywhere", "workload-1", &[("kubernetesVersion: '1.30'", "kubernetesVersion: '1.29'")]);
    let stages = resumes(&before, &after, &["md-0", "md-1"]);
    assert_eq!(names(&stages), ["workers/md-0", "control-plane"]);
    assert!(text(&stages[0].tree, FILE).contains("    name: md-0\n    kubernetesVersion: '1.29'\n"));
    assert!(text(&stages[0].tree, FILE).contains("  kubernetesVersion: '1.30'\n  managementCluster"));
}

#[test]
fn a_comment_alone_is_a_step_of_the_control_plane() {
    let before = spec("repositories/eks-anywhere", "management", &[]);
    let after = spec("repositories/eks-anywhere", "management", &[("# The management cluster.", "# Ours.")]);
    let stages = resumes(&before, &after, &["md-0"]);
    assert_eq!((names(&stages), stages[0].changes.len()), (vec!["control-plane".to_owned()], 0));
}

#[test]
fn plain_cluster_api_moves_object_by_object() {
    let before = spec("repositories/cluster-api", "plain", &[]);
    let after = spec("repositories/cluster-api", "plain", &[("v1.30.2", "v1.31.0")]);
    let stages = resumes(&before, &after, &["plain-md-0"]);
    assert_eq!(names(&stages), ["control-plane", "workers/plain-md-0"]);
    assert_eq!(text(&stages[0].tree, "cluster/workers.yaml"), text(&spec_tree(&before.files), "cluster/workers.yaml"));
    assert_eq!(text(&stages[0].tree, "cluster/cluster.yaml"), text(&spec_tree(&after.files), "cluster/cluster.yaml"));
    // A template under a new name: the old one stays until its last user has moved.
    let renamed = spec(
        "repositories/cluster-api",
        "plain",
        &[
            ("name: plain-md-0}\n---\napiVersion: bootstrap", "name: plain-md-0-v2}\n---\napiVersion: bootstrap"),
            (
                "metadata: {name: plain-md-0, namespace: clusters}\nspec: {template: {spec: {customImage",
                "metadata: {name: plain-md-0-v2, namespace: clusters}\nspec: {template: {spec: {customImage",
            ),
        ],
    );
    let stages = resumes(&before, &renamed, &["plain-md-0"]);
    assert_eq!(names(&stages), ["workers/plain-md-0"]);
}

#[test]
fn groups_of_a_cluster_class_are_deferred() {
    let before = spec("repositories/cluster-api", "classy", &[]);
    let after = spec("repositories/cluster-api", "classy", &[("v1.30.2", "v1.31.0")]);
    let stages = resumes(&before, &after, &["md-0", "md-1"]);
    assert_eq!(names(&stages), ["control-plane", "workers/md-0", "workers/md-1"]);
    let plane = text(&stages[0].tree, "cluster/cluster.yaml");
    assert!(plane.contains("          name: md-0\n          metadata:\n            annotations:\n              topology.cluster.x-k8s.io/defer-upgrade: \"\"\n"), "{plane}");
    assert!(
        plane.contains(
            "              example.org/rack: \"7\"\n              topology.cluster.x-k8s.io/defer-upgrade: \"\"\n"
        ),
        "{plane}"
    );
    assert_eq!(text(&stages[1].tree, "cluster/cluster.yaml").matches("defer-upgrade").count(), 1);
}

#[test]
fn flow_style_and_crlf_are_staged_too() {
    let flow = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\r\nkind: Cluster\r\nmetadata: {name: a}\r\nspec: \
                {kubernetesVersion: \"1.30\", workerNodeGroupConfigurations: [{name: g, count: 1}]} # end\r\n";
    let block = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\r\nkind: Cluster\r\nmetadata:\r\n  name: a\r\nspec:\r\n  \
                 kubernetesVersion: \"1.30\" # now\r\n  workerNodeGroupConfigurations:\r\n    - name: g\r\n      count: 1\r\n";
    for source in [flow, block] {
        let of = |text: &str| {
            let mut files = MemoryFiles::new();
            files.insert(RepoPath::new("clusters/a/c.yaml").unwrap(), text.as_bytes().to_vec());
            read_fleet(&files).cluster("a").unwrap().clone()
        };
        let (before, after) = (of(source), of(&source.replace("1.30", "1.31")));
        let stages = resumes(&before, &after, &["g"]);
        assert_eq!(names(&stages), ["control-plane", "workers/g"], "{source}");
        if source == block {
            let plane = text(&stages[0].tree, "cluster/c.yaml");
            assert!(
                plane.contains("\"1.31\" # now\r\n")
                    && plane.contains("    - name: g\r\n      kubernetesVersion: \"1.30\"\r\n      count: 1\r\n"),
                "{plane:?}"
            );
        }
    }
}

/// Groups written on one line each, or all on one: what cannot be edited in place is printed, and printed again by whoever goes on.
#[test]
fn a_cluster_class_goes_on_from_each_of_its_steps_whatever_its_style() {
    let style = |groups: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: a, namespace: n}}\nspec:\n  topology:\n    \
             classRef: {{name: c}}\n    version: v1.34.0 # now\n    controlPlane: {{replicas: 3}}\n    workers:\n      \
             machineDeployments:{groups}"
        )
    };
    let lines = style("\n        - {class: w, name: g, replicas: 2}\n        - {class: w, name: h, replicas: 1}\n");
    let one_line = style(" [{class: w, name: g, replicas: 2}, {class: w, name: h, replicas: 1}]\n");
    let mixed = style("\n        - class: w\n          name: g\n        - {class: w, name: h}\n");
    let block = style("\n        - class: w\n          name: g\n        - class: w\n          name: h\n");
    for source in [&lines, &one_line, &mixed, &block] {
        let of = |text: &str| {
            let mut files = MemoryFiles::new();
            files.insert(RepoPath::new("clusters/a/c.yaml").unwrap(), text.as_bytes().to_vec());
            read_fleet(&files).cluster("a").unwrap().clone()
        };
        let stages = resumes(&of(source), &of(&source.replace("1.34", "1.35")), &["g", "h"]);
        assert_eq!(names(&stages), ["control-plane", "workers/g", "workers/h"], "{source}");
        let plane = text(&stages[0].tree, "cluster/c.yaml");
        assert_eq!(plane.matches("defer-upgrade").count(), 2, "{plane}");
        assert_eq!(plane.contains("Printed by Stepgate"), source != &block, "{plane}");
        assert_eq!(plane.contains("# now"), source == &block, "{plane}");
    }
}

#[test]
fn a_shared_machine_configuration_is_told() {
    let spec = spec("repositories/eks-anywhere", "workload-1", &[("workload-1-b", "workload-1-cp")]);
    let notes = shared_machine_configs(&spec);
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0]
            .message
            .contains("worker group md-1 shares machine configuration workload-1-cp with the control plane")
    );
}

#[test]
fn on_the_way_back_the_last_groups_go_first() {
    let old = spec("repositories/eks-anywhere", "management", &[]);
    let new = spec("repositories/eks-anywhere", "management", &[("ubuntu-1.30", "ubuntu-1.30-b")]);
    let names_of = |stages: Vec<ClusterStage>| names(&stages);
    let forwards = resumes(&old, &new, &["md-0"]);
    let mut expected = names(&forwards);
    expected.reverse();
    assert_eq!(names_of(resumes_in(&new, &old, &["md-0"], true)), expected);
    let old = spec("repositories/cluster-api", "plain", &[("v1.30.2", "v1.30.1")]);
    let new = spec("repositories/cluster-api", "plain", &[]);
    let back = names_of(resumes_in(&new, &old, &["plain-md-0"], true));
    assert_eq!(back, ["workers/plain-md-0", "control-plane"]);
    let old = spec("repositories/eks-anywhere", "workload-1", &[]);
    let added = spec(
        "repositories/eks-anywhere",
        "workload-1",
        &[(
            "  - count: 3\n    name: md-1\n",
            "  - count: 1\n    name: md-2\n    machineGroupRef: {kind: VSphereMachineConfig, name: workload-1-a}\n  - count: 3\n    name: md-1\n",
        )],
    );
    assert_eq!(names_of(resumes_in(&added, &old, &["md-1", "md-0"], true)), ["workers/md-2"]);
}

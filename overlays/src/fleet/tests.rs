use domain::Scope;

use super::*;
use crate::testing::{fixture, memory, shared};

fn problems(fleet: &Fleet) -> Vec<String> {
    fleet
        .problems
        .iter()
        .filter(|problem| problem.severity > Severity::Note)
        .map(|problem| format!("{:?} {} {problem}", problem.scope, problem.code))
        .collect()
}

#[test]
fn the_layout_of_eks_anywhere_works_unchanged() {
    let fleet = read_fleet(&fixture("repositories/eks-anywhere"));
    assert_eq!(problems(&fleet), Vec::<String>::new());
    let names: Vec<_> = fleet.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names, ["management", "workload-1"]);
    let management = fleet.cluster("management").unwrap();
    assert_eq!((management.external_etcd, management.control_plane_count), (Some(3), Some(3)));
    assert_eq!((management.is_management(), &management.provider), (true, &crate::Provider::VSphere));
    let workload = fleet.cluster("workload-1").unwrap();
    assert_eq!(workload.management, Management::ManagedBy("management".to_owned()));
    let groups: Vec<_> = workload
        .worker_groups
        .iter()
        .map(|group| (group.name.as_str(), group.kubernetes_version.as_str(), group.object.as_deref().unwrap()))
        .collect();
    assert_eq!(groups, [("md-0", "1.30", "workload-1-md-0"), ("md-1", "1.29", "workload-1-md-1")]);
    assert!(workload.cilium && !workload.skip_cilium_upgrade);
    // Inherited from the management cluster.
    assert_eq!(bundle_for(&fleet, workload).unwrap().bundles.name, "bundles-1");
    assert_eq!(fleet.managed_by("management").map(|cluster| cluster.name.as_str()).collect::<Vec<_>>(), ["workload-1"]);
    assert_eq!(workload.files.len(), 1);
}

#[test]
fn clusters_of_cluster_api_are_found_with_their_parts() {
    let fleet = read_fleet(&fixture("repositories/cluster-api"));
    let plain = fleet.cluster("plain").unwrap();
    let files: Vec<_> = plain.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["clusters/plain/cluster.yaml", "clusters/plain/workers.yaml"]);
    assert_eq!((plain.kubernetes_version.as_str(), plain.kubernetes_minor()), ("v1.30.2", "1.30"));
    assert_eq!(plain.provider, crate::Provider::Docker);
    assert_eq!(plain.worker_groups[0].replicas, Some(2));
    let classy = fleet.cluster("classy").unwrap();
    assert_eq!((classy.kind, classy.worker_groups.len()), (ClusterKind::ClusterClass, 2));
}

#[test]
fn who_manages_a_cluster_is_what_is_declared_and_never_a_guess() {
    let text = |name: &str, annotations: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n\
             spec: {{topology: {{version: v1.34.0, classRef: {{name: c}}}}}}\n"
        )
    };
    let annotated = |manager: &str| format!("stepgate.dev/management-cluster: {manager}");
    let files = [
        ("a.yaml", text("a", "")),
        ("b.yaml", text("b", &annotated("b"))),
        ("c.yaml", text("c", &annotated("b"))),
        ("d.yaml", text("d", &annotated("d"))),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let fleet = read_fleet(&memory(&files));
    let of = |name: &str| fleet.cluster(name).unwrap().management.clone();
    assert_eq!(of("a"), Management::Undeclared);
    assert_eq!((of("b"), of("d")), (Management::SelfManaged, Management::SelfManaged));
    assert_eq!(of("c"), Management::ManagedBy("b".to_owned()));
    let told: Vec<_> =
        fleet.problems.iter().filter(|problem| problem.code == ProblemCode::SeveralManagementClusters).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].hint.as_ref().unwrap().contains("--management-cluster"), "{:?}", told[0]);
}

#[test]
fn tanzu_and_eksctl_are_read() {
    let fleet = read_fleet(&memory(&[
        (
            "t.yaml",
            "apiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesCluster\nmetadata: {name: t, namespace: tenants}\nspec: \
          {topology: {controlPlane: {replicas: 3, tkr: {reference: {name: v1.23.8---vmware.2-tkg.2}}}, nodePools: \
          [{name: a, replicas: 2}]}}",
        ),
        (
            "e.yaml",
            "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: e, region: r, version: \"1.30\"}\n\
          managedNodeGroups: [{name: a-1-30, desiredCapacity: 2}]\n",
        ),
    ]));
    let tanzu = fleet.cluster("t").unwrap();
    assert_eq!((tanzu.kubernetes_version.as_str(), tanzu.control_plane_count), ("v1.23.8---vmware.2-tkg.2", Some(3)));
    let eksctl = fleet.cluster("e").unwrap();
    assert_eq!((eksctl.kubernetes_version.as_str(), eksctl.worker_groups[0].replicas), ("1.30", Some(2)));
    let told = problems(&fleet);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("nothing says who runs eksctl"), "{told:?}");
}

const CLUSTER: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {name: NAME}\nspec:\n  \
                       kubernetesVersion: \"1.30\"\n";
const BUNDLE: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {name: bundles-1}\nspec:\n  \
                      number: 1\n  versionsBundles: [{kubeVersion: \"1.30\"}]\n";

#[test]
fn a_cluster_whose_manager_cannot_be_read_follows_no_other_bundle() {
    let workload = CLUSTER.replace("NAME", "w") + "  managementCluster: {name: m}\n";
    let manager = CLUSTER.replace("NAME", "m") + "  bundlesRef: {name: bundles-1}\n";
    let newer = BUNDLE.replace("bundles-1", "bundles-2").replace("number: 1", "number: 2");
    let mut files = memory(&[
        ("clusters/w/c.yaml", workload.as_str()),
        ("clusters/m/c.yaml", manager.as_str()),
        ("bundles/1.yaml", BUNDLE),
        ("bundles/2.yaml", newer.as_str()),
    ]);
    let bundle = |files: &crate::MemoryFiles| {
        let fleet = read_fleet(files);
        bundle_for(&fleet, fleet.cluster("w").unwrap()).map(|file| file.bundles.number).map_err(|it| it.message)
    };
    assert_eq!(bundle(&files), Ok(1));
    files.remove(&RepoPath::new("clusters/m/c.yaml").unwrap());
    assert_eq!(bundle(&files), Ok(2), "a manager that is nowhere");
    let reason = crate::Unusable::Unreadable { message: "too much".to_owned(), hint: None };
    files.insert_unusable("clusters/m", reason);
    assert!(bundle(&files).unwrap_err().contains("\"m\", which cannot be read"));
}

/// For each bad input: its code and place, that it stays with its cluster, and that the good cluster goes on.
#[test]
fn bad_input_never_stops_other_clusters() {
    let good = CLUSTER.replace("NAME", "good");
    let deep = format!("a: {}1{}", "[".repeat(500), "]".repeat(500));
    let mut bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let truncated = CLUSTER.replace("NAME", "bad") + "  clusterNetwork: {pods: [\n";
    let duplicate = CLUSTER.replace("NAME", "bad") + "  kubernetesVersion: \"1.31\"\n";
    let unknown = CLUSTER.replace("NAME", "bad") + "  bundlesRef: {name: bundles-7}\n";
    let release = CLUSTER.replace("NAME", "bad") + "  eksaVersion: v0.99.0\n";
    let version = CLUSTER.replace("NAME", "bad").replace("1.30", "1.99");
    let nonsense = CLUSTER.replace("NAME", "bad").replace("1.30", "latest");
    let twice = CLUSTER.replace("NAME", "bad") + "---\n" + &CLUSTER.replace("NAME", "bad");
    for (name, text, code, line) in [
        ("truncated", truncated.as_bytes(), ProblemCode::BadYaml, Some(6)),
        ("empty", b"", ProblemCode::BadYaml, Some(1)),
        ("binary", b"\x00\x01\xff\xfe\x80", ProblemCode::NotText, Some(1)),
        ("deep", deep.as_bytes(), ProblemCode::BadYaml, Some(1)),
        ("bomb", bomb.as_bytes(), ProblemCode::BadYaml, None),
        ("duplicate key", duplicate.as_bytes(), ProblemCode::DuplicateKey, Some(6)),
        ("bundle that is not there", unknown.as_bytes(), ProblemCode::MissingBundle, Some(6)),
        ("release that is not there", release.as_bytes(), ProblemCode::MissingBundle, Some(6)),
        ("Kubernetes version not in the bundle", version.as_bytes(), ProblemCode::MissingKubernetesVersion, Some(5)),
        ("no Kubernetes version", nonsense.as_bytes(), ProblemCode::BadCluster, Some(5)),
        ("two of one name", twice.as_bytes(), ProblemCode::DuplicateCluster, Some(3)),
    ] {
        let mut files = memory(&[("clusters/good/c.yaml", good.as_str()), ("bundles/1.yaml", BUNDLE)]);
        files.insert(RepoPath::new("clusters/bad/c.yaml").unwrap(), text);
        let fleet = read_fleet(&files);
        let problem =
            fleet.problems.iter().find(|problem| problem.is_error()).unwrap_or_else(|| panic!("{name}: no error"));
        assert_eq!((problem.code, &problem.scope), (code, &Scope::Cluster("bad".to_owned())), "{name}: {problem}");
        assert!(line.is_none() || problem.line == line, "{name}: {problem}");
        assert!(problem.hint.is_some(), "{name}: {problem}");
        assert_eq!(problem.path.as_ref().unwrap().as_str(), "clusters/bad/c.yaml");
        assert_eq!(fleet.blocking("good"), Vec::<&Problem>::new(), "{name}");
        assert_eq!(bundle_for(&fleet, fleet.cluster("good").unwrap()).unwrap().bundles.number, 1, "{name}");
        assert!(!fleet.blocking("bad").is_empty(), "{name}");
    }
}

#[test]
fn bad_bundles_and_entries_are_told() {
    let good = CLUSTER.replace("NAME", "good") + "  bundlesRef: {name: bundles-1}\n";
    let mut files = memory(&[
        ("clusters/good/c.yaml", good.as_str()),
        ("bundles/1.yaml", BUNDLE),
        (
            "bundles/2.yaml",
            &BUNDLE
                .replace("bundles-1", "bundles-2")
                .replace("number: 1", "number: 2")
                .replace("  versionsBundles: [{kubeVersion: \"1.30\"}]\n", ""),
        ),
        ("bundles/3.yaml", &BUNDLE.replace("bundles-1", "bundles-3")),
    ]);
    let path = |text: &str| RepoPath::new(text).unwrap();
    files
        .insert_entry(path("clusters/good/link.yaml"), EntryKind::Symlink { target: "../../../etc/passwd".to_owned() });
    files.insert_entry(path("clusters/sub"), EntryKind::Submodule);
    files.insert_unusable("clusters/\\xff.yaml", crate::Unusable::Name);
    let fleet = read_fleet(&files);
    let codes: Vec<_> = fleet
        .problems
        .iter()
        .filter(|problem| problem.is_error())
        .map(|problem| (problem.code, problem.path.as_ref().map(|path| path.as_str().to_owned())))
        .collect();
    let expected = [
        (ProblemCode::BadBundle, Some("bundles/2.yaml")),
        (ProblemCode::BadPath, None),
        (ProblemCode::DuplicateBundle, Some("bundles/3.yaml")),
        (ProblemCode::Submodule, Some("clusters/sub")),
        (ProblemCode::Symlink, Some("clusters/good/link.yaml")),
    ];
    for (code, at) in &expected {
        assert!(codes.contains(&(*code, at.map(str::to_owned))), "{code} is missing in {codes:?}");
    }
    assert_eq!(codes.len(), expected.len(), "{codes:?}");
    assert_eq!(bundle_for(&fleet, fleet.cluster("good").unwrap()).unwrap().path.as_str(), "bundles/1.yaml");
    assert!(!fleet.blocking("good").is_empty(), "a link out of the repository in its own folder blocks a cluster");
}

#[test]
fn a_large_file_is_refused_without_being_read() {
    struct Large;
    impl Files for Large {
        fn paths(&self) -> std::borrow::Cow<'_, [crate::FileEntry]> {
            let path = RepoPath::new("clusters/big/c.yaml").unwrap();
            vec![crate::FileEntry { path, kind: EntryKind::File, size: 100 << 20, id: None }].into()
        }
        fn read(&self, path: &RepoPath) -> Result<Arc<[u8]>, crate::ReadError> {
            panic!("{path} was read")
        }
    }
    let fleet = read_fleet(&Large);
    assert_eq!(fleet.problems[0].code, ProblemCode::TooLarge);
}

#[test]
fn the_newest_bundle_is_the_one_with_the_highest_number() {
    let second = BUNDLE.replace("bundles-1", "bundles-10").replace("number: 1", "number: 10");
    let third = BUNDLE.replace("bundles-1", "bundles-9").replace("number: 1", "number: 9");
    let mut files = memory(&[
        ("clusters/a/c.yaml", &CLUSTER.replace("NAME", "a")),
        ("bundles/1.yaml", BUNDLE),
        ("bundles/10.yaml", &second),
        ("bundles/9.yaml", &third),
    ]);
    let name = |files: &crate::MemoryFiles| {
        let fleet = read_fleet(files);
        bundle_for(&fleet, fleet.cluster("a").unwrap())
            .map(|file| file.bundles.name.clone())
            .map_err(|problem| problem.to_string())
    };
    assert_eq!(name(&files), Ok("bundles-10".to_owned()));
    files.insert(RepoPath::new("stepgate.yaml").unwrap(), &b"bundle: bundles-1\n"[..]);
    assert_eq!(name(&files), Ok("bundles-1".to_owned()));
    files.insert(RepoPath::new("stepgate.yaml").unwrap(), &b"bundle: newest\nclusters: {a: {bundle: bundles-9}}\n"[..]);
    assert_eq!(name(&files), Ok("bundles-9".to_owned()));
    files.insert(RepoPath::new("stepgate.yaml").unwrap(), &b"bundle: bundles-2\n"[..]);
    assert!(name(&files).unwrap_err().contains("bundles-2, which is not there"));
}

#[test]
fn real_specifications_are_read() {
    let Some(data) = shared() else { return };
    for (file, groups, etcd) in [
        ("vsphere-multi-worker-external-etcd.yaml", 2, Some(3)),
        ("cluster_tinkerbell_multiple_node_groups.yaml", 2, None),
        ("nutanix-multi-worker-md.yaml", 2, None),
    ] {
        let bytes = crate::testing::read_file(&data.join("eks-anywhere/clusters").join(file));
        let mut files = crate::MemoryFiles::new();
        files.insert(RepoPath::new("some/where.yaml").unwrap(), bytes);
        let fleet = read_fleet(&files);
        assert_eq!(fleet.clusters.len(), 1, "{file}: {:?}", fleet.problems);
        assert_eq!((fleet.clusters[0].worker_groups.len(), fleet.clusters[0].external_etcd), (groups, etcd), "{file}");
        let warnings: Vec<_> =
            fleet.problems.iter().filter(|problem| problem.code == ProblemCode::MissingReference).collect();
        assert!(warnings.is_empty(), "{file}: {warnings:?}");
    }
}

/// A thousand clusters with five objects each are read without looking at every object for every reference.
#[test]
fn a_large_fleet_is_read_in_one_go() {
    let original = fixture("repositories/eks-anywhere");
    let path = RepoPath::new("clusters/management/workload-1/eksa-system/eksa-cluster.yaml").unwrap();
    let text = String::from_utf8(original.read(&path).unwrap().to_vec()).unwrap();
    let mut files = fixture("repositories/eks-anywhere");
    for number in 2..=1000 {
        let name = format!("workload-{number}");
        let path = RepoPath::new(format!("clusters/management/{name}/eksa-system/eksa-cluster.yaml")).unwrap();
        files.insert(path, text.replace("workload-1", &name).into_bytes());
    }
    let fleet = read_fleet(&files);
    assert_eq!((fleet.clusters.len(), problems(&fleet).len()), (1001, 0));
    assert_eq!(fleet.managed_by("management").count(), 1000);
}

/// EKS Anywhere's Flux applies the specifications from the source branch and prunes: pointed elsewhere, it would delete clusters.
#[test]
fn a_kustomization_that_would_delete_clusters_is_warned_of_until_it_does_not_prune() {
    let path = RepoPath::new("clusters/management/flux-system/gotk-sync.yaml").unwrap();
    let sync = |folder: &str, prune: bool| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: flux-system}}\nspec:\n  path: {folder}\n  prune: {prune}\n"
        )
    };
    for (folder, prune, warned) in [
        ("./clusters/management", true, true),
        ("clusters/management/workload-1/", true, true),
        ("./", true, true),
        ("./clusters/management", false, false),
        ("./clusters/manage", true, false),
        ("./deploy/flux", true, false),
    ] {
        let mut files = fixture("repositories/eks-anywhere");
        files.insert(path.clone(), sync(folder, prune).into_bytes());
        let fleet = read_fleet(&files);
        let found: Vec<_> = fleet.problems.iter().filter(|it| it.code == ProblemCode::FluxPrunes).collect();
        assert_eq!(found.len(), usize::from(warned), "{folder} {prune}: {found:?}");
        if let [problem] = found.as_slice() {
            assert_eq!(
                (problem.severity, problem.line, problem.path.as_ref()),
                (Severity::Warning, Some(6), Some(&path))
            );
            assert!(
                problem.message.contains("workload-1") || problem.message.contains("management and 1 more"),
                "{problem}"
            );
        }
    }
}

/// A Cluster API cluster, and more documents in its file.
fn cluster_with(more: &str) -> Fleet {
    let text = format!(
        "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {{name: prod, namespace: n}}\n\
         spec: {{topology: {{class: c, version: v1.33.1, controlPlane: {{replicas: 3}}}}}}\n{more}"
    );
    read_fleet(&memory(&[("clusters/prod/cluster.yaml", text.as_str())]))
}

fn deployment(name: &str, namespace: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineDeployment\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}, template: {{spec: {{version: v1.33.1}}}}}}\n"
    )
}

#[test]
fn groups_beside_those_of_a_topology_are_worker_groups() {
    let fleet = cluster_with(&deployment("own", "n", "clusterName: prod, replicas: 2"));
    let groups = &fleet.cluster("prod").unwrap().worker_groups;
    assert_eq!((groups.len(), groups[0].name.as_str(), groups[0].replicas), (1, "own", Some(2)));
}

#[test]
fn workers_that_would_go_with_the_control_plane_are_errors() {
    for (namespace, spec, said) in [
        ("default", "clusterName: prod", "is in namespace \"default\""),
        ("n", "clusterName: pord", "names cluster \"pord\""),
        ("n", "replicas: 1", "names no cluster"),
        ("n", "clusterName: prod, replicas: '2'", "is not a valid number of machines"),
    ] {
        let fleet = cluster_with(&deployment("own", namespace, spec));
        let errors = fleet.problems.iter().filter(|problem| problem.is_error()).map(ToString::to_string);
        let errors: Vec<String> = errors.collect();
        assert!(errors.len() == 1 && errors[0].contains(said), "{spec}: {errors:?}");
    }
    let twice = deployment("own", "n", "clusterName: prod").repeat(2);
    let said = problems(&cluster_with(&twice));
    assert!(said.iter().any(|line| line.contains("is also specified in clusters/prod/cluster.yaml:")), "{said:?}");
}

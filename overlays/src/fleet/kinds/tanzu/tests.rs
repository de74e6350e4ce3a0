use crate::fleet::{Fleet, read_fleet};
use crate::testing::memory;
use domain::ProblemCode;

const PLANE: &str = "replicas: 3, vmClass: small, tkr: {reference: {name: v1.23.8---vmware.2-tkg.2}}";

fn cluster(version: &str, spec: &str) -> String {
    format!(
        "apiVersion: run.tanzu.vmware.com/{version}\nkind: TanzuKubernetesCluster\n\
         metadata: {{name: t, namespace: tenants}}\nspec: {spec}\n"
    )
}

fn fleet(version: &str, spec: &str, records: &str) -> Fleet {
    read_fleet(&memory(&[("t/cluster.yaml", &cluster(version, spec)), ("supervisor/records.yaml", records)]))
}

/// What is said of the cluster.
fn told(fleet: &Fleet) -> Vec<String> {
    let own = fleet.problems.iter().filter(|problem| problem.path.as_ref().is_some_and(|path| path.is_below("t")));
    own.map(ToString::to_string).collect()
}

fn release(name: &str, more: &str) -> String {
    format!(
        "---\napiVersion: run.tanzu.vmware.com/v1alpha3\nkind: TanzuKubernetesRelease\n\
         metadata: {{name: {name}}}\nspec: {{version: {}{more}}}\n",
        name.replacen("---", "+", 1)
    )
}

fn image(kind: &str, name: &str, version: &str) -> String {
    format!(
        "---\napiVersion: vmoperator.vmware.com/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    \
         vmware-system.guest.kubernetes.distribution.image.version: '{{\"distribution\": {{\"version\": \"{version}\"}}}}'\n"
    )
}

#[test]
fn every_version_of_the_interface_is_read() {
    let first = "{distribution: {version: '', fullVersion: 1.20.8+vmware.1-tkg.2}, topology: {controlPlane: {count: 1, class: a, \
                 storageClass: s}, workers: {count: 2, class: b, storageClass: s}}, settings: {storage: {classes: [s], defaultClass: s}, \
                 network: {cni: {name: antrea}, services: {cidrBlocks: [10.96.0.0/12]}, pods: {cidrBlocks: ['fd00::/48']}, serviceDomain: \
                 cluster.local}}}";
    let second = format!(
        "{{topology: {{controlPlane: {{{PLANE}, nodeDrainTimeout: 0s, volumes: [{{name: etcd, mountPath: /var/lib/etcd, capacity: \
         {{storage: 4Gi}}}}]}}, nodePools: [{{replicas: 2, name: a, vmClass: small, taints: [{{key: k, effect: NoExecute}}], labels: \
         {{a: b}}}}, {{name: b, tkr: {{reference: {{name: v1.22.9---vmware.1-tkg.1}}}}}}]}}}}"
    );
    let third = "{topology: {controlPlane: {tkr: {reference: {name: v1.23.8---vmware.2-tkg.2}}}, \
                 nodePools: [{name: a, replicas: 1, failureDomain: z}]}}";
    for (version, spec, kubernetes, plane, groups) in [
        ("v1alpha1", first, "v1.20.8+vmware.1-tkg.2", 1, vec![("workers", "v1.20.8+vmware.1-tkg.2", Some(2))]),
        (
            "v1alpha2",
            &second,
            "v1.23.8---vmware.2-tkg.2",
            3,
            vec![("a", "v1.23.8---vmware.2-tkg.2", Some(2)), ("b", "v1.22.9---vmware.1-tkg.1", None)],
        ),
        ("v1alpha3", third, "v1.23.8---vmware.2-tkg.2", 1, vec![("a", "v1.23.8---vmware.2-tkg.2", Some(1))]),
    ] {
        let fleet = fleet(version, spec, "");
        let cluster = fleet.cluster("t").unwrap();
        assert_eq!((cluster.kubernetes_version.as_str(), cluster.control_plane_count), (kubernetes, Some(plane)));
        let read: Vec<_> = cluster
            .worker_groups
            .iter()
            .map(|group| (group.name.as_str(), group.kubernetes_version.as_str(), group.replicas))
            .collect();
        assert_eq!(read, groups);
        let stays = if version == "v1alpha2" { "node pool \"b\" stays at v1.22.9+vmware.1-tkg.1" } else { "" };
        let said = told(&fleet);
        assert!(said.iter().all(|line| !stays.is_empty() && line.contains(stays)), "{version}: {said:?}");
    }
}

#[test]
fn what_is_not_understood_is_an_error_by_its_field() {
    let pools = |pool: &str| format!("{{topology: {{controlPlane: {{{PLANE}}}, nodePools: [{pool}]}}}}");
    let first = |plane: &str| {
        format!("{{distribution: {{fullVersion: v1.20.8+vmware.1-tkg.2}}, topology: {{controlPlane: {{{plane}}}}}}}")
    };
    for (version, spec, part) in [
        ("v1alpha4", pools(""), "is of version \"v1alpha4\", which is not read"),
        ("v1alpha2", "{}".to_owned(), "names no Tanzu Kubernetes release"),
        (
            "v1alpha2",
            pools("{name: a, replicsa: 2}"),
            "spec.topology.nodePools[0].replicsa is not a field of v1alpha2 (did you mean \"replicas\"?)",
        ),
        (
            "v1alpha2",
            pools("{name: a, failureDomain: z}"),
            "spec.topology.nodePools[0].failureDomain is not a field of v1alpha2",
        ),
        ("v1alpha3", pools("{name: a, replicas: '2'}"), "nodePools[0].replicas: "),
        ("v1alpha3", pools("{name: a}, {name: a}"), "two node pools are called \"a\""),
        ("v1alpha3", pools("{replicas: 1}"), "nodePools[0] has no valid name"),
        (
            "v1alpha3",
            pools("{name: a, nodeDrainTimeout: 5 minutes}"),
            "nodeDrainTimeout: 5 minutes is not a valid duration",
        ),
        (
            "v1alpha3",
            pools("{name: a, volumes: [{name: v, mountPath: var}]}"),
            "volumes[0].mountPath: var is not a valid path",
        ),
        (
            "v1alpha3",
            pools("{name: a, volumes: [{name: v, capacity: {storage: 4 GB}}]}"),
            "storage: 4 GB is not a valid size",
        ),
        ("v1alpha3", pools("{name: a, taints: [{key: k, effect: Never}]}"), "effect: Never is not a valid value"),
        (
            "v1alpha3",
            pools("{name: a, tkr: {reference: {name: latest}}}"),
            "node pool \"a\": \"latest\" is not a valid",
        ),
        ("v1alpha3", pools("{name: a, tkr: {reference: {name: v1.24.9---vmware.1-tkg.4}}}"), "above the control plane"),
        ("v1alpha1", first("count: 2"), "a Supervisor refuses 2 control-plane machines"),
        ("v1alpha1", first("class: a"), "a Supervisor refuses no valid number of control-plane machines"),
        ("v1alpha1", first("count: 1, replicas: 1"), "spec.topology.controlPlane.replicas is not a field of v1alpha1"),
        (
            "v1alpha1",
            "{distribution: {version: v1.19, fullVersion: v1.20.8+vmware.1-tkg.2}}".to_owned(),
            "version hint v1.19 is not the beginning",
        ),
        (
            "v1alpha2",
            format!(
                "{{distribution: {{fullVersion: v1.20.8+vmware.1-tkg.2}}, topology: {{controlPlane: {{{PLANE}}}}}}}"
            ),
            "spec.distribution names v1.20.8+vmware.1-tkg.2, and the control plane",
        ),
        (
            "v1alpha3",
            format!(
                "{{topology: {{controlPlane: {{{PLANE}}}}}, settings: {{network: {{pods: {{cidrBlocks: [10.0.0.0/33]}}}}}}}}"
            ),
            "cidrBlocks[0]: 10.0.0.0/33 is not a valid network",
        ),
    ] {
        let fleet = fleet(version, &spec, "");
        let errors: Vec<String> = fleet.blocking("t").iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
    }
}

fn hint(version: &str, full: &str) -> String {
    format!(
        "{{distribution: {{version: '{version}', fullVersion: {full}}}, topology: {{controlPlane: {{count: 3, class: a}}, workers: \
         {{count: 1, class: a}}}}}}"
    )
}

#[test]
fn hints_are_resolved_against_recorded_releases() {
    let records = release("v1.21.2---vmware.1-tkg.1", "")
        + &release("v1.21.6---vmware.1-tkg.1", "")
        + &release("v1.22.9---vmware.1-tkg.1", "");
    let fleet_of = |version: &str, full: &str, records: &str| fleet("v1alpha1", &hint(version, full), records);
    let resolved = fleet_of("v1.21", "null", &records);
    let cluster = resolved.cluster("t").unwrap();
    assert_eq!(cluster.kubernetes_version, "v1.21.6+vmware.1-tkg.1");
    assert_eq!(cluster.worker_groups[0].kubernetes_version, "v1.21.6+vmware.1-tkg.1");
    assert!(told(&resolved)[0].contains("(write fullVersion: v1.21.6+vmware.1-tkg.1 beside it)"));
    assert_eq!(told(&fleet_of("v1.21", "v1.21.2+vmware.1-tkg.1", &records)), [""; 0]);
    let unread = records.clone() + &release("latest", "");
    for (version, full, records, part) in [
        ("v1.21", "null", "", "no release is recorded that it could mean"),
        ("v1.23", "null", &records, "no recorded release is v1.23; the newest are v1.22.9+vmware.1-tkg.1"),
        ("", "v1.21.9+vmware.1-tkg.1", &records, "no recorded release is v1.21.9+vmware.1-tkg.1"),
        ("v1.21", "null", &unread, "which release v1.21 means cannot be told: supervisor/records.yaml"),
    ] {
        let fleet = fleet_of(version, full, records);
        let errors: Vec<String> = fleet.blocking("t").iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
    }
}

#[test]
fn recorded_objects_of_a_supervisor_belong_to_no_cluster() {
    let text = cluster("v1alpha3", &format!("{{topology: {{controlPlane: {{{PLANE}}}}}}}"));
    let records =
        release("v1.23.8---vmware.2-tkg.2", "") + &image("ClusterVirtualMachineImage", "i", "v1.23.8+vmware.2-tkg.2");
    let fleet = read_fleet(&memory(&[("clusters/t/cluster.yaml", &text), ("clusters/t/records.yaml", &records)]));
    assert_eq!(fleet.problems, []);
    let files: Vec<&str> = fleet.cluster("t").unwrap().files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["clusters/t/cluster.yaml"]);
}

#[test]
fn images_of_a_release_are_held_against_it() {
    let version = "v1.23.8+vmware.2-tkg.2";
    let spec = format!("{{topology: {{controlPlane: {{{PLANE}}}}}}}");
    let legacy = release("v1.23.8---vmware.2-tkg.2", ", nodeImageRef: {name: i}");
    let unified = release("v1.23.8---vmware.2-tkg.2", ", osImages: [{name: p}, {name: u}]");
    let system = |name: &str, os: &str| {
        format!(
            "---\napiVersion: run.tanzu.vmware.com/v1alpha3\nkind: OSImage\nmetadata: {{name: {name}}}\n\
             spec: {{os: {{name: {os}}}, image: {{type: vmop, ref: {{name: i-{name}}}}}}}\n"
        )
    };
    let bare = "---\napiVersion: vmoperator.vmware.com/v1alpha2\nkind: VirtualMachineImage\nmetadata: {name: i}\n";
    let of = |name: &str| image("VirtualMachineImage", name, version);
    for (records, part) in [
        (legacy.clone() + &of("i"), None),
        (legacy.clone(), None),
        (legacy.clone() + &of("other"), Some("image \"i\" of release v1.23.8+vmware.2-tkg.2 is not among")),
        (legacy.clone() + bare, Some("does not say its distribution")),
        (
            legacy.clone() + &image("VirtualMachineImage", "i", "v1.22.9+vmware.1-tkg.1"),
            Some("says that it is of v1.22.9"),
        ),
        (legacy + &of("i") + &of("j"), Some("images i, j are all of release")),
        (unified.clone() + &system("p", "photon") + &system("u", "ubuntu") + &of("i-p") + &of("i-u"), None),
        (unified.clone() + &system("u", "ubuntu") + &system("x", "photon"), None),
        (
            unified.clone() + &system("p", "ubuntu") + &system("u", "ubuntu"),
            Some("is os-name=photon; recorded of it: p, u"),
        ),
        (unified + &system("p", "photon") + &system("u", "photon"), Some("images p and u of release")),
    ] {
        let said = told(&fleet("v1alpha3", &spec, &records));
        match part {
            None => assert_eq!(said, [""; 0], "{records}"),
            Some(part) => assert!(said.iter().any(|line| line.contains(part)), "{part}: {said:?}"),
        }
    }
}

/// Ten specifications in the forms that people publish (`fixtures/tanzu`), in one repository with recorded releases.
#[test]
fn specifications_in_every_published_form_are_read() {
    let mut files = crate::testing::fixture("tanzu");
    let names = [
        "v1.16.8---vmware.1-tkg.3.60d2ffd",
        "v1.19.7---vmware.1-tkg.1.fc82c41",
        "v1.20.8---vmware.1-tkg.2",
        "v1.20.12---vmware.1-tkg.1.b9a42f3",
        "v1.21.2---vmware.1-tkg.1.ee25d55",
        "v1.21.6---vmware.1-tkg.1.cc71bc8",
        "v1.22.9---vmware.1-tkg.1.cc71bc8",
    ];
    let records: String = names.iter().map(|name| release(name, "")).collect();
    files.insert(domain::RepoPath::new("supervisor.yaml").unwrap(), records.into_bytes());
    let fleet = read_fleet(&files);
    for (name, version, machines) in [
        ("whole-hint", "v1.16.8---vmware.1-tkg.3.60d2ffd", 2),
        ("empty-hint", "v1.20.8+vmware.1-tkg.2", 3),
        ("minor-hint", "v1.19.7+vmware.1-tkg.1.fc82c41", 1),
        ("patch-hint", "v1.21.2+vmware.1-tkg.1.ee25d55", 2),
        ("classes-in-one-line", "v1.21.6+vmware.1-tkg.1.cc71bc8", 2),
        ("converted", "v1.20.12---vmware.1-tkg.1.b9a42f3", 4),
        ("commit-in-name", "v1.21.6---vmware.1-tkg.1.cc71bc8", 3),
        ("trailing-blanks", "v1.22.9---vmware.1-tkg.1.cc71bc8", 2),
    ] {
        let cluster = fleet.cluster(name).unwrap_or_else(|| panic!("{name}: {:?}", fleet.problems));
        let group = &cluster.worker_groups[0];
        assert_eq!((cluster.kubernetes_version.as_str(), group.replicas), (version, Some(machines)), "{name}");
        assert!(fleet.blocking(name).is_empty(), "{:?}", fleet.blocking(name));
    }
    assert_eq!(fleet.clusters.len(), 8);
    for file in ["mustache.yaml", "pool-inherits.yaml"] {
        let is_told = |problem: &&domain::Problem| {
            problem.code == ProblemCode::Template && problem.path.as_ref().is_some_and(|path| path.as_str() == file)
        };
        assert!(fleet.problems.iter().any(|problem| is_told(&problem)), "{file}: {:?}", fleet.problems);
    }
}

/// The text of the cluster as it is committed.
fn committed(fleet: &Fleet) -> String {
    String::from_utf8(fleet.cluster("t").unwrap().files[0].bytes.to_vec()).unwrap()
}

#[test]
fn the_release_that_is_meant_is_written_as_its_version_asks() {
    let records = release("v1.21.6---vmware.1-tkg.1", "") + &release("v1.23.8---vmware.2-tkg.2", "");
    let head = "metadata: {name: t, namespace: tenants}\n";
    for (version, source, expected) in [
        (
            "v1alpha1",
            "spec:\n  distribution:\n    version: v1.21 # the minor\n  topology:\n    controlPlane: {count: 1, class: a}\n",
            "spec:\n  distribution:\n    version: v1.21 # the minor\n    fullVersion: v1.21.6+vmware.1-tkg.1\n  topology:\n    \
             controlPlane: {count: 1, class: a}\n",
        ),
        (
            "v1alpha1",
            "spec: {distribution: {version: v1.21, fullVersion: null}, topology: {controlPlane: {count: 1, class: a}}}\n",
            "spec: {distribution: {version: v1.21, fullVersion: v1.21.6+vmware.1-tkg.1}, topology: {controlPlane: {count: 1, \
             class: a}}}\n",
        ),
        (
            "v1alpha1",
            "spec:\n  distribution:\n    fullVersion:\n    version: v1.21\n  topology: {controlPlane: {count: 1, class: a}}\n",
            "spec:\n  distribution:\n    fullVersion: v1.21.6+vmware.1-tkg.1\n    version: v1.21\n  topology: {controlPlane: \
             {count: 1, class: a}}\n",
        ),
        (
            "v1alpha2",
            "spec:\n  # from the first version\n  distribution:\n    fullVersion: 1.23.8+vmware.2-tkg.2\n  topology:\n    \
             controlPlane:\n      replicas: 1\n    nodePools:\n    - name: workers\n      replicas: 2\n",
            "spec:\n  # from the first version\n  topology:\n    controlPlane:\n      replicas: 1\n      tkr: {reference: {name: \
             v1.23.8---vmware.2-tkg.2}}\n    nodePools:\n    - name: workers\n      tkr: {reference: {name: \
             v1.23.8---vmware.2-tkg.2}}\n      replicas: 2\n",
        ),
        (
            "v1alpha3",
            "spec: {distribution: {version: v1.23}, topology: {controlPlane: {replicas: 1, tkr: {reference: {name: v1.23.8}}}, \
             nodePools: [{name: a, tkr: {reference: {name: v1.23}}}, {replicas: 1, name: b}]}}\n",
            "spec: {topology: {controlPlane: {replicas: 1, tkr: {reference: {name: v1.23.8---vmware.2-tkg.2}}}, nodePools: [{name: \
             a, tkr: {reference: {name: v1.23.8---vmware.2-tkg.2}}}, {replicas: 1, tkr: {reference: {name: \
             v1.23.8---vmware.2-tkg.2}}, name: b}]}}\n",
        ),
    ] {
        let of = |rest: &str| {
            format!("apiVersion: run.tanzu.vmware.com/{version}\nkind: TanzuKubernetesCluster\n{head}{rest}")
        };
        let fleet = read_fleet(&memory(&[("t/cluster.yaml", &of(source)), ("records.yaml", &records)]));
        assert!(fleet.blocking("t").is_empty(), "{:?}", fleet.blocking("t"));
        assert_eq!(committed(&fleet), of(expected));
        let again = read_fleet(&memory(&[("t/cluster.yaml", &committed(&fleet))]));
        assert_eq!((committed(&again), told(&again)), (of(expected), Vec::new()));
    }
}

#[test]
fn a_release_is_written_into_flow_style_and_json_of_several_lines() {
    for source in [
        "{\n  \"apiVersion\": \"run.tanzu.vmware.com/v1alpha3\",\n  \"kind\": \"TanzuKubernetesCluster\",\n  \"metadata\": \
         {\"name\": \"t\", \"namespace\": \"n\"},\n  \"spec\": {\"topology\": {\"controlPlane\": {\n    \"replicas\": 1,\n    \"tkr\": \
         {\"reference\": {\"name\": \"v1.23.8---vmware.2-tkg.2\"}}},\n    \"nodePools\": [{\n      \"name\": \"a\",\n      \
         \"replicas\": 2\n    }]}}\n}\n",
        "apiVersion: run.tanzu.vmware.com/v1alpha1\nkind: TanzuKubernetesCluster\nmetadata: {name: t, namespace: n}\nspec:\n  \
         distribution: {\n    version: v1.23.8+vmware.2-tkg.2\n  }\n  topology: {controlPlane: {count: 1, class: a}}\n",
    ] {
        let fleet = read_fleet(&memory(&[("t/cluster.yaml", source)]));
        assert!(fleet.blocking("t").is_empty(), "{:?}", fleet.blocking("t"));
        let text = committed(&fleet);
        assert_eq!(text.matches("vmware.2-tkg.2").count(), 2, "{text}");
    }
}

#[test]
fn a_release_that_cannot_be_written_is_an_error() {
    let records = release("v1.23.8---vmware.2-tkg.2", "");
    let aliased = "{topology: {controlPlane: {replicas: 1, tkr: {reference: {name: &r v1.23}}}, nodePools: [{name: a, tkr: \
                   {reference: {name: *r}}}]}}";
    let fleet = fleet("v1alpha3", aliased, &records);
    let errors: Vec<String> = fleet.blocking("t").iter().map(ToString::to_string).collect();
    assert!(errors.iter().any(|error| error.contains("cannot be written into its file")), "{errors:?}");
}

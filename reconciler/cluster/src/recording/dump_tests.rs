use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/clusters").join(name)
}

#[test]
fn a_folder_is_read_with_lists_documents_and_folders_below() {
    let observation = read_dump(&fixture("settled")).unwrap();
    assert_eq!(observation.clusters.len(), 1);
    assert_eq!(observation.control_planes.len(), 1);
    assert_eq!(observation.machine_sets.len(), 2);
    let machines: Vec<_> = observation
        .machines
        .iter()
        .map(|machine| (machine.name.as_str(), machine.owner.as_deref(), machine.control_plane))
        .collect();
    assert_eq!(machines, [("prod-abc12", Some("prod"), true), ("prod-md-0-new-x1", Some("prod-md-0"), false)]);
    assert_eq!(read_dump(&fixture("rolling")).unwrap().nodes.len(), 1);
}

#[test]
fn one_file_is_read_as_a_folder_of_one() {
    let observation = read_dump(&fixture("settled/machines.json")).unwrap();
    assert_eq!((observation.machines.len(), observation.control_planes.len()), (2, 0));
}

#[test]
fn the_same_object_in_two_versions_is_one_object() {
    let mut objects = Objects::new();
    for version in ["v1beta1", "v1beta2", "v1beta1"] {
        let object = serde_json::json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Machine",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"version": version}});
        add(object, &mut objects).unwrap();
    }
    let machines = observe(&objects).machines;
    assert_eq!(machines.len(), 1);
    assert_eq!(machines[0].spec_version.as_deref(), Some("v1beta2"));
}

#[test]
fn bad_files_are_named_with_line_and_advice() {
    for (name, expected) in [
        ("hostile/cut-off.json", "cut-off.json:18:38: EOF"),
        ("hostile/duplicate-key.yaml", "duplicate-key.yaml:5:1"),
        ("hostile/no-kind.yaml", "no-kind.yaml:5: no Kubernetes object: apiVersion or kind is missing"),
        ("hostile/no-name.yaml", "no-name.yaml:1: no Kubernetes object: metadata.name is missing"),
        ("hostile/wrong-type.yaml", "wrong-type.yaml:1: no Kubernetes object: invalid type: string \"newest\""),
        ("hostile/comments.yaml", "holds no Kubernetes object"),
        ("hostile/missing", "could not read"),
    ] {
        let error = read_dump(&fixture(name)).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

#[test]
#[cfg(unix)]
fn links_and_hidden_names_below_the_folder_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("node.yaml"), "{apiVersion: v1, kind: Node, metadata: {name: a}}\n").unwrap();
    fs::write(folder.path().join(".hidden.yaml"), "not: [an object\n").unwrap();
    fs::write(folder.path().join("notes.txt"), "not: [an object\n").unwrap();
    std::os::unix::fs::symlink("/etc", folder.path().join("etc")).unwrap();
    std::os::unix::fs::symlink(fixture("settled/machines.json"), folder.path().join("machines.json")).unwrap();
    let observation = read_dump(folder.path()).unwrap();
    assert_eq!((observation.nodes.len(), observation.machines.len()), (1, 0));
}

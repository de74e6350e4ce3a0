use std::fs;
use std::path::Path;

use rollout::{BackupReport, ClusterIdentity};
use serde_json::{Value, json};

use super::header::FORMAT;
use super::*;

fn machine(name: &str) -> DynamicObject {
    serde_json::from_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "fleet"}, "spec": {"clusterName": "prod"}}))
    .unwrap()
}

fn take(root: &Path) -> BackupReport {
    let report = BackupReport {
        rollout: "0123456789ab".parse().unwrap(),
        taken_at: "2026-03-01T12:00:00Z".parse().unwrap(),
        objects: 3,
        read_back: true,
        location: root.join("0123456789ab").display().to_string(),
    };
    let cluster = SavedCluster {
        name: "prod".to_owned(),
        namespace: "fleet".to_owned(),
        uid: None,
        identity: None,
        manages_itself: false,
    };
    let endpoint = "https://management:6443".to_owned();
    let management = ClusterIdentity { uid: Some("u-1".to_owned()), endpoint, certificate_authority: None };
    let (cluster, management, files) = (Some(cluster), Some(management), BTreeMap::new());
    let header = BackupHeader { format: FORMAT, report, cluster, management, files, digest: None };
    let machines = ["a", "b", "c"].map(machine).to_vec();
    let kinds = vec![("machines.cluster.x-k8s.io".to_owned(), machines)];
    files::write(&root.join("0123456789ab"), &Contents { header, kinds }).unwrap()
}

/// What reading says after this was done to a file of a backup.
fn refused(file: &str, change: impl FnOnce(String) -> String) -> String {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("0123456789ab");
    take(root.path());
    let path = folder.join(file);
    let before = fs::read_to_string(&path).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after);
    fs::write(&path, after).unwrap();
    read_backup(&folder).unwrap_err().to_string()
}

const MACHINES: &str = "machines.cluster.x-k8s.io.json";

#[test]
fn a_backup_says_of_which_cluster_it_is_and_what_it_holds() {
    let root = tempfile::tempdir().unwrap();
    let report = take(root.path());
    let Backup { header, objects } = read_backup(Path::new(&report.location)).unwrap();
    assert_eq!((header.format, objects.len()), (FORMAT, 3));
    assert_eq!(header.files[MACHINES].objects, 3);
    assert_eq!(header.management.as_ref().unwrap().uid.as_deref(), Some("u-1"));
    header.must_be_of("prod", "fleet", Path::new("b")).unwrap();
    for (name, namespace) in [("test", "fleet"), ("prod", "other")] {
        let error = header.must_be_of(name, namespace, Path::new("b")).unwrap_err().to_string();
        assert!(error.contains("is of cluster fleet/prod") && error.contains(name), "{error}");
    }
    // Copied elsewhere, it says where it lies now.
    let copy = root.path().join("copy");
    fs::rename(&report.location, &copy).unwrap();
    assert_eq!(read_backup(&copy).unwrap().header.report.location, copy.display().to_string());
}

#[test]
fn a_backup_that_was_cut_off_or_changed_is_refused() {
    let half = |text: String| text[..text.len() / 2].to_owned();
    for (file, change, expected) in [
        (MACHINES, Box::new(half) as Box<dyn Fn(String) -> String>, "does not have the digest"),
        (MACHINES, Box::new(|text| text.replace("\"b\"", "\"d\"")), "does not have the digest"),
        ("backup.json", Box::new(half), "not JSON of a backup at line"),
        ("backup.json", Box::new(|text| text.replace("\"prod\"", "\"test\"")), "does not have the digest"),
        ("backup.json", Box::new(|text| text.replace("\"format\": 2", "\"format\": 3")), "is of format 3"),
        ("backup.json", Box::new(|text| text.replace("\"format\": 2", "\"format\": 0")), "is of format 0"),
    ] {
        let error = refused(file, change);
        assert!(error.contains(expected) && !error.contains("Machine"), "{file}: {error}");
    }
}

#[test]
fn a_backup_of_the_first_format_is_still_read() {
    let root = tempfile::tempdir().unwrap();
    let header = json!({"rollout": "0123456789ab", "takenAt": "2026-03-01T12:00:00Z", "objects": 2,
        "readBack": true, "location": "/elsewhere"});
    let write = |name: &str, value: &Value| fs::write(root.path().join(name), value.to_string()).unwrap();
    write("backup.json", &header);
    write(MACHINES, &json!([machine("a"), machine("b")]));
    let Backup { header, objects } = read_backup(root.path()).unwrap();
    assert_eq!((header.format, header.cluster.as_ref(), objects.len()), (1, None, 2));
    header.must_be_of("prod", "fleet", root.path()).unwrap();
    write(MACHINES, &json!([machine("a")]));
    let error = read_backup(root.path()).unwrap_err().to_string();
    assert!(error.contains("2 objects expected, 1 found"), "{error}");
    let nothing = read_backup(&root.path().join("nothing")).unwrap_err().to_string();
    assert!(nothing.contains("could not read backup") && nothing.contains("name the folder"), "{nothing}");
}

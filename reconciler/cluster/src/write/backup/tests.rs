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
    take_for(root, &[])
}

fn take_for(root: &Path, recipients: &[BackupRecipient]) -> BackupReport {
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
    let (cluster, management) = (Some(cluster), Some(management));
    let files = BTreeMap::new();
    let header =
        BackupHeader { format: FORMAT, report, cluster, management, recipients: Vec::new(), files, digest: None };
    let machines = ["a", "b", "c"].map(machine).to_vec();
    let kinds = vec![("machines.cluster.x-k8s.io".to_owned(), machines)];
    files::write(&root.join("0123456789ab"), &Contents { header, kinds }, recipients, None).unwrap()
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
    read_backup(&folder, &[]).unwrap_err().to_string()
}

const MACHINES: &str = "machines.cluster.x-k8s.io.json";

#[test]
fn a_backup_says_of_which_cluster_it_is_and_what_it_holds() {
    let root = tempfile::tempdir().unwrap();
    let report = take(root.path());
    let Backup { header, objects } = read_backup(Path::new(&report.location), &[]).unwrap();
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
    assert_eq!(read_backup(&copy, &[]).unwrap().header.report.location, copy.display().to_string());
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
    let Backup { header, objects } = read_backup(root.path(), &[]).unwrap();
    assert_eq!((header.format, header.cluster.as_ref(), objects.len()), (1, None, 2));
    header.must_be_of("prod", "fleet", root.path()).unwrap();
    write(MACHINES, &json!([machine("a")]));
    let error = read_backup(root.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("2 objects expected, 1 found"), "{error}");
    let nothing = read_backup(&root.path().join("nothing"), &[]).unwrap_err().to_string();
    assert!(nothing.contains("could not read backup") && nothing.contains("name the folder"), "{nothing}");
}

#[test]
fn an_encrypted_backup_is_checked_by_anybody_and_opened_by_its_identity() {
    let keys = [(); 3].map(|()| age::x25519::Identity::generate());
    let recipients: Vec<BackupRecipient> =
        keys[..2].iter().map(|key| key.to_public().to_string().parse().unwrap()).collect();
    let identity = |key: &age::x25519::Identity| {
        use age::secrecy::ExposeSecret as _;
        BackupIdentity::of_file(&format!("# created\n{}\n", key.to_string().expose_secret())).unwrap()
    };
    let root = tempfile::tempdir().unwrap();
    let folder = PathBuf::from(take_for(root.path(), &recipients).location);
    for entry in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("clusterName"), "something is written in the clear");
    }
    assert_eq!(newest_whole(root.path()), Some(folder.clone()));
    for key in &keys[..2] {
        assert_eq!(read_backup(&folder, &identity(key)).unwrap().objects.len(), 3);
    }
    let recipient = recipients[0].to_string();
    for identities in [Vec::new(), identity(&keys[2])] {
        let error = read_backup(&folder, &identities).unwrap_err().to_string();
        assert!(error.contains(&recipient) && error.contains("--identity"), "{error}");
    }
    let path = folder.join(format!("{MACHINES}.age"));
    let mut bytes = fs::read(&path).unwrap();
    bytes.pop();
    fs::write(&path, bytes).unwrap();
    let error = read_backup(&folder, &identity(&keys[0])).unwrap_err().to_string();
    assert!(error.contains("does not have the digest"), "{error}");
    assert_eq!(newest_whole(root.path()), None);
}

#[test]
fn keys_that_are_mistaken_are_refused_without_being_told() {
    let secret = "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ";
    let error = secret.parse::<BackupRecipient>().unwrap_err();
    assert!(error.contains("name the public one") && !error.contains("QQQ"), "{error}");
    assert!("prod".parse::<BackupRecipient>().unwrap_err().contains("is not a valid age recipient"));
    for (text, expected) in [("# nothing", "holds no age identity"), ("\nage1qqq", "line 2 is not a valid")] {
        let error = BackupIdentity::of_file(text).unwrap_err();
        assert!(error.contains(expected) && !error.contains("qqq"), "{error}");
    }
}

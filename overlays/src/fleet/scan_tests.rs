use super::*;

fn path(text: &str) -> RepoPath {
    RepoPath::new(text).unwrap()
}

#[test]
fn a_cluster_whose_files_hold_too_much_is_told_apart_from_the_others() {
    let list = (0..50).map(|number| format!("  - {number}\n")).collect::<String>();
    let text = format!("apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {{name: x}}\nspec:\n{list}");
    let names: Vec<String> = ["a/1", "a/2", "a/3", "b/1"].map(|name| format!("clusters/{name}.yaml")).to_vec();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
    let found = scan(&crate::testing::memory(&files), &Policy::default(), &ReadFiles::new(0).with_nodes(130));
    assert_eq!(found.objects.len(), 3);
    let [problem] = found.problems.as_slice() else { panic!("{:?}", found.problems) };
    assert_eq!(problem.scope, domain::Scope::Cluster("a".to_owned()));
    assert!(problem.to_string().contains("clusters/a/3.yaml") && problem.message.contains("130"), "{problem}");
    assert!(problem.hint.as_ref().unwrap().contains("--repo-limit nodes="), "{problem}");
}

#[test]
fn links_that_leave_are_told_from_those_that_stay() {
    for (at, target, leaves) in [
        ("a/b", "../c", false),
        ("a/b", "../../c", true),
        ("b", "c/../../d", true),
        ("a/b/c", "../x/../y", false),
        ("a", "/etc/passwd", true),
        ("a/b", "../.git/config", true),
        ("a", "x\\..\\..", true),
    ] {
        assert_eq!(leaves_repository(&path(at), target), leaves, "{at} -> {target}");
    }
}

#[test]
fn folders_name_clusters() {
    for (at, cluster) in [
        ("clusters/one/cluster.yaml", Some("one")),
        ("clusters/mgmt/w1/eksa-system/eksa-cluster.yaml", Some("w1")),
        ("user/path/w2/eksa-system/eksa-cluster.yaml", Some("w2")),
        ("clusters/readme.yaml", None),
        ("other/x.yaml", None),
    ] {
        assert_eq!(cluster_of_path(&path(at)).as_deref(), cluster, "{at}");
    }
}

#[test]
fn folders_that_are_no_components_overlay_are_told_once() {
    let files = crate::testing::memory(&[
        ("overlays/certmanager/a.yaml", ""),
        ("overlays/certmanager/b.yaml", ""),
        ("overlays/capi/a.yaml", ""),
        ("clusters/x/overlays/cluster/a.yaml", ""),
    ]);
    let told: Vec<_> =
        scan(&files, &Policy::default(), &ReadFiles::new(0)).problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter()
            .any(|text| text.contains("overlays/certmanager") && text.contains("did you mean \"cert-manager\"?")),
        "{told:?}"
    );
    assert!(told.iter().any(|text| text.starts_with("clusters/x/overlays/cluster is not")), "{told:?}");
}

#[test]
fn overlays_and_rendered_files_are_left() {
    let mut policy = Policy::default();
    policy.deploy.path = Some(path("deploy"));
    for (at, expected) in [
        ("bundles/a.yaml", Place::Ours),
        ("clusters/a/b.yaml", Place::Ours),
        ("clusters/a/overlays/capi/b.yaml", Place::Left),
        ("overlays/capi/b.yaml", Place::Left),
        ("deploy/clusters/a/b.yaml", Place::Left),
        (".github/workflows/a.yaml", Place::Left),
        ("infra/a.yaml", Place::Elsewhere),
        ("infra/overlays/prod/a.yaml", Place::Elsewhere),
        ("overlays/prod/a.yaml", Place::Elsewhere),
        ("clusters/a/overlays/prod/a.yaml", Place::Elsewhere),
        ("clusters/a/b/overlays/prod/a.yaml", Place::Ours),
        ("bundles", Place::Elsewhere),
    ] {
        assert_eq!(place(&path(at), &policy), expected, "{at}");
    }
}

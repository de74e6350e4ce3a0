//! Clusters are recorded many at once, and one that is refused keeps no other from it.

use crate::support::Fleet;

/// A fleet of three clusters that were never recorded, one of which cannot be rendered.
fn unrecorded() -> Fleet {
    let fleet = Fleet::settled();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    fleet.write("main", OVERLAY, b"resources: [absent.yaml]\n");
    fleet
}

const OVERLAY: &str = "clusters/team-a/overlays/cilium/kustomization.yaml";

const ADOPT: [&str; 2] = ["adopt", "--as-declared"];

/// The messages of the deploy branch, newest first.
fn messages(fleet: &Fleet) -> Vec<String> {
    let mut walk = fleet.repository.revwalk().unwrap();
    walk.push_ref("refs/heads/deploy").unwrap();
    walk.map(|id| fleet.repository.find_commit(id.unwrap()).unwrap().message().unwrap().to_owned()).collect()
}

#[test]
fn who_is_refused_is_named_and_the_others_are_recorded_in_one_commit() {
    let fleet = unrecorded();
    let dry = fleet.run(&ADOPT);
    assert_eq!((dry.code, fleet.head("deploy")), (2, None), "{}", dry.text());
    assert_eq!(dry.stdout.matches("would be recorded").count(), 2, "{}", dry.text());

    let adopted = fleet.run(&[&ADOPT[..], &["--yes"]].concat());
    assert_eq!(adopted.code, 2, "{}", adopted.text());
    assert!(adopted.stderr.contains("cluster team-a cannot be recorded"), "{}", adopted.stderr);
    let head = fleet.head("deploy").unwrap().to_string();
    for cluster in ["mgmt", "team-b"] {
        let line = adopted.stdout.lines().find(|line| line.starts_with(&format!("{cluster}: recorded")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("commit {head}"))), "{cluster}: {}", adopted.stdout);
    }
    let told = messages(&fleet);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("2 clusters: adopt as the source branch says\n"), "{told:?}");
    for line in ["Stepgate-Cluster: mgmt\n", "Stepgate-Cluster: team-b\n", "- mgmt: unknown: ", "- team-b: unknown: "] {
        assert_eq!(told[0].matches(line).count(), 1, "{line}: {}", told[0]);
    }
    let plan = fleet.run(&["plan", "-o", "json"]).json();
    let cluster = |name: &str| plan["clusters"].as_array().unwrap().iter().find(|it| it["cluster"] == name).unwrap();
    assert!(["mgmt", "team-b"].iter().all(|name| cluster(name)["commits"] == 0), "{plan}");
    assert_eq!(cluster("team-a")["blocked"][0]["code"], "not-adopted", "{plan}");
    let history = fleet.run(&["history", "team-b", "-o", "json"]).json();
    assert_eq!((&history["commits"][0]["stage"], history["commits"].as_array().unwrap().len()), (&"verify".into(), 1));

    fleet.write("main", OVERLAY, b"resources: []\n");
    let again = fleet.run(&[&ADOPT[..], &["--yes"]].concat());
    assert_eq!((again.code, again.stdout.matches("has a ledger already").count()), (0, 2), "{}", again.text());
    assert!(messages(&fleet)[0].starts_with("team-a: adopt as the source branch says\n"), "{:?}", messages(&fleet));
}

//! Plans and differences between any two commits.

use crate::support::Fleet;

#[test]
fn a_plan_between_two_commits_is_that_of_the_first_one_deployed() {
    let fleet = Fleet::pending();
    let deployed = fleet.run(&["plan", "-o", "json"]).json();
    let settled = Fleet::settled();
    let between = settled.run(&["plan", "--from", "main~1", "--to", "main", "-o", "json"]);
    assert_eq!((between.code, between.stderr.as_str()), (0, ""));
    assert_eq!(between.json(), deployed);
    let head = settled.head("main").unwrap().to_string();
    assert_eq!(settled.run(&["plan", "--from", "main~1", "--to", &head[..8], "-o", "json"]).json(), deployed);
}

#[test]
fn a_plan_leads_back_where_the_commits_are_turned_round() {
    let fleet = Fleet::settled();
    let back = fleet.run(&["plan", "--from", "main", "--to", "main~1", "-o", "json"]).json();
    let stages = back["clusters"][0]["stages"].as_array().unwrap();
    let changes = stages.iter().flat_map(|stage| stage["changes"].as_array().unwrap());
    let of_kubernetes: Vec<_> = changes.filter(|change| change["component"] == "kubernetes").collect();
    assert_eq!((&of_kubernetes[0]["oldVersion"], &of_kubernetes[0]["newVersion"]), (&"1.34".into(), &"1.33".into()));
    let nothing = fleet.run(&["plan", "--from", "main", "--exit-code"]);
    assert_eq!((nothing.code, nothing.stdout.matches("nothing to do").count()), (0, 3), "{}", nothing.text());
}

#[test]
fn a_plan_to_a_commit_begins_at_what_is_deployed() {
    let fleet = Fleet::settled();
    let nothing = fleet.run(&["plan", "--to", "main", "--exit-code"]);
    assert_eq!(nothing.code, 0, "{}", nothing.text());
    assert_ne!(fleet.run(&["plan", "--to", "main~1", "--exit-code"]).code, 0);
}

#[test]
fn a_difference_between_two_commits_needs_no_deploy_branch() {
    let fleet = Fleet::settled();
    let wanted = Fleet::pending().run(&["diff", "-o", "json"]).json();
    fleet.repository.find_reference("refs/heads/deploy").unwrap().delete().unwrap();
    let between = fleet.run(&["diff", "--from", "main~1", "-o", "json"]);
    assert_eq!((between.code, between.json()), (1, wanted), "{}", between.stderr);
}

#[test]
fn a_commit_that_is_not_there_is_named_with_what_names_one() {
    let fleet = Fleet::settled();
    let run = fleet.run(&["plan", "--from", "mian"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr.contains("has no commit `mian`") && run.stderr.contains("hint: name a branch"),
        "{}",
        run.stderr
    );
}

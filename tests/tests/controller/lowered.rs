//! Whoever pushes cannot lower the bar that judges the push: what decides whose word counts, how many words, where commits land and under whose name
//! is judged by the policy before the push and by the one after it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use domain::CommitId;
use git::Repository;
use overlays::{Charts, Manifests};
use planning::policies::Field;
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::effects::adopt::adopt;
use stepgate::reconcile::planner::{Planner, Sources};
use stepgate::reconcile::proposal::{self, AnswerError, Approval, Consent};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use crate::approvals::{Git, Merge, OVERLAY, waits_for_people};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

const POLICY: &str = "stepgate.yaml";

/// Where the demo's fleet is deployed to, in its policy.
const DEPLOY: &str = "deploy:\n  branch: deploy\n";

/// Under whose name, likewise.
const AUTHOR: &str = "  name: Stepgate\n  email: stepgate@example.com\n";

/// Somebody pushes another policy together with what it is to let through.
fn push(fleet: &Fleet, policy: impl FnOnce(String) -> String) -> CommitId {
    static PUSHES: AtomicU32 = AtomicU32::new(0);
    let main = "main".parse().unwrap();
    let overlay = fleet.read(&main, OVERLAY).unwrap();
    let old = overlay.lines().last().unwrap().split_whitespace().last().unwrap().to_owned();
    let new = format!("class-{}", PUSHES.fetch_add(1, Ordering::Relaxed));
    let policy = policy(fleet.read(&main, POLICY).unwrap());
    fleet.push(&BTreeMap::from([
        (OVERLAY.to_owned(), overlay.replace(&old, &new).into_bytes()),
        (POLICY.to_owned(), policy.into_bytes()),
    ]))
}

fn message(pass: &ReconcileReport) -> String {
    outcome(pass, "mgmt").message()
}

fn trusting(fleet: &Fleet, commit: &CommitId) -> Controller {
    let planner = fleet.planner().trusting(Some(commit.clone()));
    Controller::new(planner, Arc::clone(&fleet.simulated) as Arc<_>, Arc::new(fleet.clock.clone()), 4)
}

fn says(fleet: &Fleet, who: &str, consent: &Consent<'_>) -> Result<Approval, AnswerError> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let by = format!("{who} <{}@example.com>", who.to_lowercase()).parse().unwrap();
    proposal::answer(&planner, &reading, &view, Some(&by), consent, fleet.clock_now())
}

fn approves(fleet: &Fleet, who: &str) -> Vec<String> {
    says(fleet, who, &Consent::Word).unwrap().missing
}

/// What was found of the policy to be otherwise than before.
fn changed(fleet: &Fleet) -> Vec<Field> {
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    planner.policy_changes(&reading, "mgmt").unwrap().into_iter().map(|change| change.field).collect()
}

#[test]
fn whoever_makes_an_author_somebody_else_makes_nobody_approve() {
    let fleet = Fleet::with_policy(|policy| {
        policy
            + "approval: stage\napprovers: {groups: {platform: 1}, author: true}\ngroups: {platform: [alice@example.com]}\n"
    });
    let controller = fleet.controller();
    push(&fleet, |policy| policy + "people: {alice@example.com: [person@example.com]}\n");
    fleet.run_until(&controller, waits_for_people);
    assert_eq!(approves(&fleet, "Person"), ["group platform missing"]);
    assert_eq!(changed(&fleet), [Field::People]);
    // Nor does it count for whoever joins the group, and the one who was in it before lets it through.
    push(&fleet, |policy| {
        policy.replace("[alice@example.com]}\npeople", "[alice@example.com, person@example.com]}\npeople")
    });
    fleet.run_until(&fleet.controller(), waits_for_people);
    assert_eq!(approves(&fleet, "Person"), ["group platform missing"]);
    assert_eq!(approves(&fleet, "Alice"), [""; 0]);
    fleet.run_to_the_end(&controller);
    // With it approved, it counts for what comes next.
    assert_eq!(changed(&fleet), []);
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    assert_eq!(approves(&fleet, "Person"), [""; 0]);
    fleet.run_to_the_end(&controller);
    assert_no_stage_twice(&fleet);
}

#[test]
fn whoever_drops_the_forge_makes_no_commit_believed() {
    let forge = "forge: {kind: gitea, url: 'https://git.example.com', repository: platform/fleet}\n";
    let fleet =
        Fleet::with_policy(|policy| policy + "approval: stage\napprovers: {minimum: 2, author: true}\n" + forge);
    let controller = fleet.controller();
    let head = fleet.head();
    let dropped = push(&fleet, |policy| policy.replace(forge, ""));
    let other = |policy: String| policy.replace(forge, &forge.replace("platform/fleet", "mallory/fleet"));
    for controller in [&controller, &fleet.controller()] {
        let pass = fleet.pass(controller);
        assert!(matches!(outcome(&pass, "mgmt"), ClusterOutcome::Blocked { .. }), "{}", told(&pass));
        assert!(
            message(&pass).contains("forge is none now and was gitea https://git.example.com platform/fleet"),
            "{}",
            message(&pass)
        );
        let help = outcome(&pass, "mgmt").help().unwrap();
        assert!(help.contains(&format!("--trust-policy {dropped}")), "{help}");
    }
    let answer = says(&fleet, "Alice", &Consent::Word);
    assert!(matches!(answer, Err(AnswerError::Unconfirmed { .. })), "{answer:?}");
    let answer = says(&fleet, "Alice", &Consent::Override("now"));
    assert!(matches!(answer, Err(AnswerError::Unconfirmed { .. })), "{answer:?}");
    assert_eq!(fleet.head(), head);
    // Another repository has other people.
    push(&fleet, |policy| other(policy + forge));
    assert!(message(&fleet.pass(&controller)).contains("mallory/fleet now"));
    push(&fleet, |policy| policy.replace("mallory/fleet", "platform/fleet"));
    assert!(!message(&fleet.pass(&controller)).contains("forge is"));
}

#[test]
fn where_and_under_whose_name_it_lands_waits_for_whoever_runs_stepgate() {
    for (field, said, pushed) in [
        ("deploy.branch", DEPLOY, "deploy:\n  branch: elsewhere\n"),
        ("deploy.path", DEPLOY, "deploy:\n  branch: deploy\n  path: inside\n"),
        ("apply", DEPLOY, "apply: direct\ndeploy:\n  branch: deploy\n"),
        ("author", AUTHOR, "  name: Mallory\n  email: mallory@example.com\n"),
    ] {
        let fleet = Fleet::new();
        let controller = fleet.controller();
        let (head, source) = (fleet.head(), fleet.repository.head(&"main".parse().unwrap()).unwrap().unwrap());
        // The branch that is named holds all that is deployed, as whoever prepares a push may see to.
        let git = Git::of(&fleet);
        git.0.branch("elsewhere", &git.deploy(), false).unwrap();
        let commit = push(&fleet, |policy| policy.replace(said, pushed));
        for controller in [&controller, &fleet.controller()] {
            let pass = fleet.pass(controller);
            let ClusterOutcome::Blocked { reasons } = outcome(&pass, "mgmt") else {
                panic!("{field}: {}", told(&pass))
            };
            assert!(reasons[0].message.starts_with(&format!("{field} is ")), "{field}: {reasons:?}");
            assert!(reasons[0].help.contains(&format!("--trust-policy {commit}")), "{reasons:?}");
        }
        assert_eq!(fleet.head(), head, "{field}");
        assert_eq!(
            git.0.find_branch("elsewhere", git2::BranchType::Local).unwrap().get().target(),
            Some(git.deploy().id())
        );
        // An older one that is trusted changes nothing.
        let pass = fleet.pass(&trusting(&fleet, &source));
        assert!(matches!(outcome(&pass, "mgmt"), ClusterOutcome::Blocked { .. }), "{field}: {}", told(&pass));
        if field == "author" {
            let trusting = trusting(&fleet, &commit);
            fleet.run_to_the_end(&trusting);
            assert_eq!(git.deploy().author().name().unwrap(), "Mallory");
            // Then it is what the cluster is at.
            push(&fleet, |policy| policy);
            fleet.run_to_the_end(&controller);
        } else {
            push(&fleet, |policy| policy.replace(pushed, said));
            fleet.run_to_the_end(&controller);
            assert_ne!(fleet.head(), head);
        }
        assert_no_stage_twice(&fleet);
    }
}

#[test]
fn a_branch_with_forged_ledgers_is_no_place_to_deploy_from() {
    let fleet = Fleet::new();
    let head = fleet.head();
    let named = fleet.edit(POLICY, |policy| policy.replace(DEPLOY, "deploy:\n  branch: forged\n"));
    // Its ledgers say that the cluster was committed from the very commit that names the branch.
    let git = Git::of(&fleet);
    git.0.branch("forged", &git.deploy(), false).unwrap();
    let ledger = fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
    let source = ledger.lines().find_map(|line| line.strip_prefix("source: ")).unwrap();
    let forged = ledger.replace(source, named.as_str());
    fleet.write(&"forged".parse().unwrap(), "clusters/mgmt/rollout.yaml", &forged);
    push(&fleet, |policy| policy);
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    assert_eq!(reading.layout, fleet.layout, "what is deployed is read from where it was");
    let merged = git.unrelated(&fleet.read(&"main".parse().unwrap(), POLICY).unwrap());
    let reading = planner.read().unwrap();
    assert_eq!((reading.source_commit().as_str(), &reading.layout), (merged.to_string().as_str(), &fleet.layout));
    let pass = fleet.pass(&fleet.controller());
    let ClusterOutcome::Blocked { reasons } = outcome(&pass, "mgmt") else { panic!("{}", told(&pass)) };
    assert!(reasons[0].message.contains("deploy.branch is forged now and was deploy"), "{reasons:?}");
    assert_eq!(fleet.head(), head);
}

#[test]
fn a_window_or_a_pause_is_not_pushed_away() {
    // It is Monday.
    let windows = "windows: [{days: [saturday], from: \"08:00\", to: \"20:00\"}]\n";
    let fleet = Fleet::with_policy(|policy| policy + windows);
    let controller = fleet.controller();
    let (head, commit) = (fleet.head(), push(&fleet, |policy| policy.replace(windows, "")));
    let waits = |pass: &ReconcileReport| message(pass).contains("outside of the maintenance windows");
    fleet.run_until(&controller, waits);
    assert_eq!((fleet.head(), changed(&fleet)), (head, vec![Field::Windows]));
    fleet.run_until_committed(&trusting(&fleet, &commit), "mgmt", "cert-manager");

    let fleet = Fleet::with_policy(|policy| policy + "paused: true\n");
    let (head, commit) = (fleet.head(), push(&fleet, |policy| policy.replace("paused: true\n", "")));
    let pass = fleet.pass(&fleet.controller());
    assert!(message(&pass).contains("paused in stepgate.yaml of commit"), "{}", told(&pass));
    assert!(outcome(&pass, "mgmt").help().unwrap().contains(&format!("--trust-policy {commit}")), "{}", told(&pass));
    assert_eq!(fleet.head(), head);
    fleet.run_to_the_end(&trusting(&fleet, &commit));
}

#[test]
fn a_bar_that_is_raised_on_the_way_is_not_lowered_on_the_way() {
    let two = "approval: stage\napprovers: {minimum: 2, author: true}\n";
    let fleet = Fleet::new();
    let controller = fleet.controller();
    fleet.push(&{
        let mut files = fleet.files.bump.clone();
        let policy = fleet.read(&"main".parse().unwrap(), POLICY).unwrap();
        files.insert(POLICY.to_owned(), (policy + two).into_bytes());
        files
    });
    fleet.run_until(&controller, waits_for_people);
    assert_eq!(approves(&fleet, "Alice"), ["1 of 2 approvals"]);
    assert_eq!(approves(&fleet, "Bob"), [""; 0]);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager"]);
    // What was committed last was committed with two.
    fleet.edit(POLICY, |policy| policy.replace(two, ""));
    let waits = |pass: &ReconcileReport| {
        message(pass).contains("waits for approval") && message(pass).contains("0 of 2 approvals")
    };
    fleet.run_until(&controller, waits);
    fleet.run_until(&fleet.controller(), waits);
    assert_eq!(fleet.stages("mgmt"), ["cert-manager"]);
}

#[test]
fn owners_of_before_are_heard_as_well() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\napprovers: {codeOwners: true, author: true}\n");
    let controller = fleet.controller();
    fleet.meddle("CODEOWNERS", Some("/clusters/ carol@example.com\n"));
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    assert_eq!(approves(&fleet, "Carol"), [""; 0]);
    fleet.run_to_the_end(&controller);
    fleet.meddle("CODEOWNERS", Some("/clusters/ mallory@example.com\n"));
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    let missing = approves(&fleet, "Mallory");
    assert!(missing.len() == 1 && missing[0].contains("carol@example.com"), "{missing:?}");
    assert_eq!(approves(&fleet, "Carol"), [""; 0]);
    fleet.run_to_the_end(&controller);
}

/// Sources that note what may be asked for.
struct Noting(FetchSources, Arc<Mutex<Vec<Vec<String>>>>);

impl Sources for Noting {
    fn manifests(&self, fleet: &overlays::Fleet, allow: &[String]) -> Arc<dyn Manifests> {
        self.1.lock().unwrap().push(allow.to_vec());
        self.0.manifests(fleet, allow)
    }

    fn charts(&self, fleet: &overlays::Fleet, allow: &[String]) -> Arc<dyn Charts> {
        self.0.charts(fleet, allow)
    }
}

#[test]
fn nothing_is_fetched_from_a_host_that_is_new_with_the_push() {
    let fleet = Fleet::with_policy(|policy| policy + "fetch: {allow: [a.example.com, b.example.com]}\n");
    let commit = push(&fleet, |policy| policy.replace("[a.example.com,", "[a.example.com/x, mallory.example.com,"));
    let asked = |trusted: Option<CommitId>| {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let sources = Noting(FetchSources::new(fleet.files.mirrors.clone()), Arc::clone(&noted));
        let main = "main".parse().unwrap();
        let planner = Planner::new(fleet.repository.clone(), main, Arc::new(sources)).trusting(trusted);
        planner.view(&planner.read().unwrap(), "mgmt").unwrap();
        let noted = noted.lock().unwrap().clone();
        noted.into_iter().next().unwrap()
    };
    assert_eq!(asked(None), ["a.example.com/x", "b.example.com"]);
    assert_eq!(asked(Some(commit)), ["a.example.com/x", "mallory.example.com", "b.example.com"]);
}

#[test]
fn a_policy_that_is_lost_is_not_taken_for_none() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    // The branch is written anew, and what the cluster is at is gone.
    let old = fleet.repository.head(&"main".parse().unwrap()).unwrap().unwrap();
    push(&fleet, |policy| policy.replace("approval: stage\n", ""));
    let git = Git::of(&fleet);
    let newest = git.0.find_reference("refs/heads/main").unwrap().target().unwrap();
    let tree = git.0.find_commit(newest).unwrap().tree().unwrap();
    let person = git2::Signature::now("A Person", "person@example.com").unwrap();
    let orphan = git.0.commit(None, &person, &person, "Begin anew", &tree, &[]).unwrap();
    git.0.reference("refs/heads/main", orphan, true, "rewritten").unwrap();
    // A copy of what is there now does not have it.
    let folder = tempfile::tempdir().unwrap();
    let copy = git2::Repository::init_bare(folder.path()).unwrap();
    let from = format!("file://{}", fleet.repository.folder().display());
    copy.remote_anonymous(&from).unwrap().fetch(&["+refs/heads/*:refs/heads/*"], None, None).unwrap();
    assert!(copy.find_commit(old.as_str().parse().unwrap()).is_err());
    let copied = Repository::open(&folder.path().to_str().unwrap().parse().unwrap()).unwrap();
    let head = copied.head(&fleet.layout.branch).unwrap();
    let passes = |trusted: Option<CommitId>| {
        let sources = Arc::new(FetchSources::new(fleet.files.mirrors.clone()));
        let planner = Planner::new(copied.clone(), "main".parse().unwrap(), sources).trusting(trusted);
        Controller::new(planner, Arc::clone(&fleet.simulated) as Arc<_>, Arc::new(fleet.clock.clone()), 4)
    };
    let pass = fleet.pass(&passes(None));
    let ClusterOutcome::Blocked { reasons } = outcome(&pass, "mgmt") else { panic!("{}", told(&pass)) };
    assert!(reasons[0].message.contains(&format!("cannot be read from commit {old}")), "{reasons:?}");
    assert!(reasons[0].help.contains(&format!("--trust-policy {orphan}")), "{reasons:?}");
    assert_eq!(copied.head(&fleet.layout.branch).unwrap(), head);
    let pass = fleet.pass(&passes(Some(orphan.to_string().parse().unwrap())));
    assert!(!matches!(outcome(&pass, "mgmt"), ClusterOutcome::Blocked { .. }), "{}", told(&pass));
}

#[test]
fn a_first_record_is_judged_by_the_policy_that_is_pinned() {
    let fleet = Fleet::new();
    let first = fleet.repository.head(&"main".parse().unwrap()).unwrap().unwrap();
    let text =
        fleet.read(&"main".parse().unwrap(), "clusters/team-a/cluster.yaml").unwrap().replace("team-a", "team-z");
    let policy = fleet.read(&"main".parse().unwrap(), POLICY).unwrap();
    let policy = policy.replace(AUTHOR, "  name: Mallory\n  email: mallory@example.com\n");
    fleet.push(&BTreeMap::from([
        ("clusters/team-z/cluster.yaml".to_owned(), text.into_bytes()),
        (POLICY.to_owned(), policy.into_bytes()),
    ]));
    let head = fleet.head();
    let planner = fleet.planner().trusting(Some(first));
    let refused = adopt(&planner, &planner.read().unwrap(), "team-z", fleet.clock_now(), false).unwrap_err();
    assert!(refused.to_string().contains("author is Mallory"), "{refused}");
    assert_eq!(fleet.head(), head);
    let planner = fleet.planner();
    adopt(&planner, &planner.read().unwrap(), "team-z", fleet.clock_now(), false).unwrap();
    assert_ne!(fleet.head(), head);
}

#[test]
fn what_is_recorded_as_its_source_is_the_policy_that_was_pushed() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    let lax = push(&fleet, |policy| policy + "people: {alice: [person@example.com]}\n");
    fleet.edit(POLICY, |policy| policy.replace("people: {alice: [person@example.com]}\n", ""));
    fleet.run_until(&controller, waits_for_people);
    // Whoever may write the branch lets the ledger say that it comes from the lax policy.
    let git = Git::of(&fleet);
    let (name, head) = git.of_cluster("mgmt").unwrap();
    let source = fleet.repository.head(&"main".parse().unwrap()).unwrap().unwrap();
    let forged = git.again(&name, head, source.as_str(), lax.as_str());
    let answer = says(&fleet, "Alice", &Consent::Word);
    assert!(matches!(answer, Err(AnswerError::Void { .. })), "{answer:?}");
    fleet.run_until(&controller, |pass| {
        waits_for_people(pass) && git.of_cluster("mgmt").is_some_and(|(_, head)| head != forged)
    });
}

#[test]
fn an_approval_outside_of_the_windows_waits_for_one() {
    let windows = "windows: [{days: [tuesday], from: \"08:00\", to: \"20:00\"}]\n";
    for rules in ["", "approvers: {minimum: 2, author: true}\n"] {
        let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n" + rules + windows);
        let controller = fleet.controller();
        push(&fleet, |policy| policy);
        fleet.run_until(&controller, waits_for_people);
        let head = fleet.head();
        if !rules.is_empty() {
            approves(&fleet, "Bob");
        }
        let answer = says(&fleet, "Alice", &Consent::Word).unwrap();
        assert_eq!(answer.missing, [""; 0]);
        let not_yet = answer.not_yet.unwrap();
        assert!(not_yet.contains("the next maintenance window opens at 2026-01-06T08:00:00Z"), "{not_yet}");
        assert!(answer.commit.is_some() && fleet.head() == head, "it is noted, and nothing has landed");
        let pass = fleet.run_until(&controller, waits_for_people);
        assert!(message(&pass).contains("the next maintenance window opens at"), "{}", told(&pass));
        // Any process lets it land in its time, and says whose word it was.
        fleet.clock.advance(jiff::SignedDuration::from_mins(22 * 60 + 50));
        fleet.run_until(&fleet.controller(), |_| fleet.head() != head);
        assert!(fleet.clock_now() >= "2026-01-06T08:00:00Z".parse().unwrap());
        let merge = fleet.head_message();
        assert!(merge.contains("Stepgate-Approved-By: Alice <alice@example.com>"), "{merge}");
        fleet.run_to_the_end(&controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"]);
    }
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n" + windows);
    push(&fleet, |policy| policy);
    fleet.run_until(&fleet.controller(), waits_for_people);
    let head = fleet.head();
    says(&fleet, "Alice", &Consent::Override("it burns")).unwrap();
    assert_ne!(fleet.head(), head);
    let said = fleet.head_message();
    assert!(said.contains("Stepgate-Missing: a maintenance window") && said.contains("it burns"), "{said}");
}

/// Sources of a process that lacks what it renders with.
struct Nothing;

impl Sources for Nothing {
    fn manifests(&self, fleet: &overlays::Fleet, _: &[String]) -> Arc<dyn Manifests> {
        FetchSources::new(Vec::<std::path::PathBuf>::new()).manifests(fleet, &[])
    }

    fn charts(&self, fleet: &overlays::Fleet, _: &[String]) -> Arc<dyn Charts> {
        FetchSources::new(Vec::<std::path::PathBuf>::new()).charts(fleet, &[])
    }
}

#[test]
fn a_process_that_cannot_render_withdraws_no_proposal_and_no_rejection() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    let blind = || {
        let planner = Planner::new(fleet.repository.clone(), "main".parse().unwrap(), Arc::new(Nothing));
        Controller::new(planner, Arc::clone(&fleet.simulated) as Arc<_>, Arc::new(fleet.clock.clone()), 4)
    };
    let git = Git::of(&fleet);
    let proposed = git.proposed();
    assert_eq!(proposed.len(), 1);
    for _ in 0..3 {
        let pass = fleet.pass(&blind());
        assert!(matches!(outcome(&pass, "mgmt"), ClusterOutcome::Blocked { .. }), "{}", told(&pass));
    }
    assert_eq!(git.proposed(), proposed);
    let planner = fleet.planner();
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let bob = "Bob <bob@example.com>".parse().unwrap();
    proposal::reject(&planner, &reading, &view, Some(&bob), "not now", fleet.clock_now()).unwrap();
    let is_held = |pass: &ReconcileReport| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. });
    fleet.run_until(&controller, is_held);
    for _ in 0..3 {
        fleet.pass(&blind());
    }
    let pass = fleet.run_until(&fleet.controller(), is_held);
    assert!(message(&pass).contains("rejected by Bob"), "{}", told(&pass));
}

#[test]
fn a_merger_does_not_choose_when_it_was_merged() {
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let (_, head) = git.of_cluster("mgmt").unwrap();
    // By a clock that is ahead by a year, the stage would have all the time of the world.
    let year = jiff::SignedDuration::from_hours(24 * 365);
    let now = fleet.clock_now();
    git.merge(head, Merge::Squash, now + year);
    fleet.pass(&controller);
    let committed = |planner: &Planner| {
        let view = planner.view(&planner.read().unwrap(), "mgmt").unwrap();
        view.head
            .commits()
            .iter()
            .filter(|commit| commit.trailer.is_some())
            .map(|commit| commit.committed_at)
            .collect::<Vec<_>>()
    };
    let planner = fleet.planner().with_clock(Arc::new(fleet.clock.clone()));
    let first = committed(&planner);
    assert!(first.iter().all(|at| *at <= fleet.clock_now()), "{first:?}");
    // It stays what it was when it was seen.
    fleet.clock.advance(jiff::SignedDuration::from_hours(2));
    assert_eq!(committed(&planner), first);
    // Nor is it older than what it was merged into.
    let fleet = Fleet::with_policy(|policy| policy + "approval: stage\n");
    let controller = fleet.controller();
    push(&fleet, |policy| policy);
    fleet.run_until(&controller, waits_for_people);
    let git = Git::of(&fleet);
    let before = jiff::Timestamp::from_second(git.deploy().time().seconds()).unwrap();
    git.merge(git.of_cluster("mgmt").unwrap().1, Merge::Commit, before - year);
    let planner = fleet.planner().with_clock(Arc::new(fleet.clock));
    let view = planner.view(&planner.read().unwrap(), "mgmt").unwrap();
    let newest = view.head.newest(|_| true).unwrap();
    assert!(newest.committed_at >= before, "{} {before}", newest.committed_at);
}

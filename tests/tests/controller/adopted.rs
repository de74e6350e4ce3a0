//! Clusters that are recorded together share a commit, which says of each what a commit of its own would say.

use std::collections::BTreeMap;

use domain::ClusterName;
use git::{HistoryEntry, StageTrailers};
use stepgate::reconcile::effects::adopt::{Adoption, adopt};
use stepgate::reconcile::effects::records::{Outcomes, Record, Records};
use stepgate::reconcile::planner::Planner;
use stepgate::report::events_of;

use super::fleet::{Files, Fleet};

const NEW: [&str; 3] = ["team-x", "team-y", "team-z"];

/// Three more clusters like `team-a`, which nobody has recorded.
fn with_new() -> Fleet {
    let fleet = Fleet::new();
    let like = fleet.read(&"main".parse().unwrap(), "clusters/team-a/cluster.yaml").unwrap();
    let file = |name: &&str| (format!("clusters/{name}/cluster.yaml"), like.replace("team-a", name).into_bytes());
    fleet.push(&NEW.iter().map(file).collect::<Files>());
    fleet
}

/// The new clusters as they are to be recorded by what is known now.
fn compared(fleet: &Fleet, planner: &Planner) -> Records {
    let mut records = Records::new(planner.read().unwrap());
    for name in NEW {
        let view = planner.view(records.reading(), name).unwrap();
        let record = Record::of(records.reading(), &view, None, &[], fleet.clock_now()).unwrap();
        records.push(record.unwrap());
    }
    records
}

fn told(outcomes: Outcomes) -> BTreeMap<String, Result<Adoption, String>> {
    let told = |(name, outcome): (ClusterName, Result<Adoption, anyhow::Error>)| {
        (name.to_string(), outcome.map_err(|error| error.to_string()))
    };
    outcomes.into_iter().map(told).collect()
}

fn is_recorded(outcome: &Result<Adoption, String>) -> bool {
    matches!(outcome, Ok(Adoption::Recorded { commit: Some(_), .. }))
}

fn commits(planner: &Planner, name: &str) -> Vec<HistoryEntry> {
    planner.commits(&planner.read().unwrap(), &name.parse().unwrap(), 10).unwrap()
}

#[test]
fn clusters_that_are_recorded_together_share_one_commit_that_names_each() {
    let fleet = with_new();
    let (planner, before) = (fleet.planner(), fleet.head());
    let outcomes = told(compared(&fleet, &planner).commit(&planner, fleet.clock_now()).unwrap());
    assert!(outcomes.len() == 3 && outcomes.values().all(is_recorded), "{outcomes:?}");
    let head = fleet.head();
    assert_eq!(fleet.repository.parent(&head).unwrap(), Some(before));
    let stages = StageTrailers::parse_all(&fleet.head_message());
    assert_eq!(stages.iter().map(|stage| stage.cluster.as_str()).collect::<Vec<_>>(), NEW);

    let reading = planner.read().unwrap();
    for name in NEW {
        let entries = commits(&planner, name);
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!((&entries[0].commit, entries[0].is_foreign()), (&head, false));
        let view = planner.view(&reading, name).unwrap();
        let ledger = view.directory.ledger().unwrap();
        let stage = entries[0].stage.as_ref().unwrap();
        assert_eq!((&stage.rollout, &stage.plan, &stage.source), (&ledger.rollout, &ledger.plan, &ledger.source));
        assert!(!view.plan.has_differences() && view.foreign.is_none(), "{:?}", view.plan);
        let (events, _) = events_of(&planner, &reading, name, 10).unwrap();
        assert_eq!(events.iter().map(|event| event.event.as_str()).collect::<Vec<_>>(), ["adopted"]);
    }
    // The clusters that had a record have the same history as before.
    assert!(commits(&planner, "team-a").iter().all(|entry| entry.commit != head));
}

#[test]
fn a_record_for_several_says_the_same_of_each_as_one_of_its_own() {
    let (together, alone) = (with_new(), with_new());
    compared(&together, &together.planner()).commit(&together.planner(), together.clock_now()).unwrap();
    for name in NEW {
        let planner = alone.planner();
        adopt(&planner, &planner.read().unwrap(), name, alone.clock_now(), false).unwrap();
    }
    assert_eq!(together.tree(), alone.tree());
    for name in NEW {
        let ledger = |fleet: &Fleet| fleet.deployed(&format!("clusters/{name}/rollout.yaml"));
        assert!(ledger(&together).is_some() && ledger(&together) == ledger(&alone), "{:?}", ledger(&together));
    }
}

#[test]
fn whoever_is_recorded_by_somebody_else_meanwhile_keeps_no_other_from_it() {
    let fleet = with_new();
    let planner = fleet.planner();
    let records = compared(&fleet, &planner);
    let other = fleet.planner();
    adopt(&other, &other.read().unwrap(), NEW[1], fleet.clock_now(), false).unwrap();
    let theirs = fleet.head();
    let outcomes = told(records.commit(&planner, fleet.clock_now()).unwrap());
    assert_eq!(outcomes[NEW[1]], Ok(Adoption::Already));
    assert!(is_recorded(&outcomes[NEW[0]]) && is_recorded(&outcomes[NEW[2]]), "{outcomes:?}");
    assert_eq!(fleet.repository.parent(&fleet.head()).unwrap(), Some(theirs.clone()));
    assert_eq!(commits(&planner, NEW[1]).iter().map(|entry| &entry.commit).collect::<Vec<_>>(), [&theirs]);
}

#[test]
fn what_the_source_branch_says_otherwise_by_now_is_not_recorded_unseen() {
    let fleet = with_new();
    let planner = fleet.planner();
    let records = compared(&fleet, &planner);
    fleet.edit(&format!("clusters/{}/cluster.yaml", NEW[0]), |text| text.replacen("count: ", "count: 1", 1));
    let outcomes = told(records.commit(&planner, fleet.clock_now()).unwrap());
    let refused = outcomes[NEW[0]].as_ref().unwrap_err();
    assert!(refused.contains(NEW[0]) && refused.contains("has changed since it was compared"), "{refused}");
    assert!(is_recorded(&outcomes[NEW[1]]) && is_recorded(&outcomes[NEW[2]]), "{outcomes:?}");
    assert_eq!(fleet.deployed(&format!("clusters/{}/rollout.yaml", NEW[0])), None);
}

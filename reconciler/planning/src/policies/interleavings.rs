//! 50,000 orders in which people push, approve, merge and edit while processes decide: nothing lands that any of the policies which count would not
//! have let land, be it the one that was pushed last or one of before. Each field has a bug that is seeded here, and that this search finds.
//!
//! What decides is the real thing: `step` on a simulated cluster, the stricter of the policies (`before.rs`), who is who by all of them, and what has
//! to be confirmed (`confirm.rs`). What must not happen is told again, policy by policy, in `oracle.rs`. Approvals as the forge shows them are
//! tried by `controller/proposal/interleavings.rs`.
//!
//! `STEPGATE_INTERLEAVINGS` says how many are tried, and `STEPGATE_SEED` the first of them, alone if nothing else is said.

mod draw;
mod oracle;
mod play;

use std::time::Instant;

use simulator::Random;

use super::before::{Field, forgetting};
use draw::Focus;
use play::Play;

/// How many are tried unless somebody says otherwise.
const FEW: u64 = 400;

/// How many are tried at most until a seeded bug is found.
const MOST: u64 = 4_000;

/// How many things happen in one.
const LONGEST: u64 = 150;

const FIELDS: [Field; 27] = [
    Field::People,
    Field::Groups,
    Field::Approvers,
    Field::CodeOwners,
    Field::Approval,
    Field::AcceptEdits,
    Field::OnStaleMerge,
    Field::Windows,
    Field::Paused,
    Field::AllowDowngrade,
    Field::AllowForcedUpdate,
    Field::AllowMinorRollback,
    Field::RestartFargate,
    Field::ForceDrain,
    Field::FetchAllow,
    Field::Forge,
    Field::DeployBranch,
    Field::DeployPath,
    Field::Apply,
    Field::Author,
    Field::Signing,
    Field::Signatures,
    Field::Waivers,
    Field::DriftIgnore,
    Field::Notes,
    Field::Injection,
    Field::Machines,
];

#[expect(clippy::disallowed_methods, reason = "how many orders to try is the caller's choice")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// One interleaving; an error says what happened that must not.
fn interleave(seed: u64, focus: Option<Field>) -> Result<Play, String> {
    let mut random = Random::new(seed);
    let mut play = Play::new(seed, Focus::on(focus), &mut random);
    for _ in 0..LONGEST {
        play.happen(&mut random);
        if let Some(violation) = play.violation.take() {
            return Err(format!("STEPGATE_SEED={seed}: {violation}\n{}", play.told.join("\n")));
        }
    }
    Ok(play)
}

#[test]
fn nothing_lands_that_the_stricter_of_two_policies_would_not_let_land() {
    let first = setting("STEPGATE_SEED");
    let count = setting("STEPGATE_INTERLEAVINGS").unwrap_or(if first.is_some() { 1 } else { FEW });
    let first = first.unwrap_or_default();
    #[expect(clippy::disallowed_methods, reason = "figures are printed, nothing is decided by them")]
    let started = Instant::now();
    let (mut pushes, mut landed, mut blocked, mut reverted, mut edited) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let play = interleave(seed, None).unwrap_or_else(|violation| panic!("{violation}"));
        let of = |word: &str| play.told.iter().filter(|line| line.contains(word)).count();
        pushes += of("pushes");
        landed += of("lands");
        blocked += of("is blocked");
        reverted += of("takes back");
        edited += of(", which bob edited");
        if setting("STEPGATE_SEED").is_some() {
            println!("{}", play.told.join("\n"));
        }
    }
    let took = started.elapsed();
    println!(
        "{count} interleavings in {took:.0?}: {pushes} pushes, {landed} landed ({edited} edited), {blocked} blocked, {reverted} taken back"
    );
    if count >= FEW {
        assert!([pushes, landed, blocked, reverted, edited].iter().all(|tried| *tried > 0));
    }
}

#[test]
fn a_field_that_is_judged_by_the_newest_policy_alone_is_noticed() {
    for field in FIELDS {
        let found = forgetting(Some(field), || (0..MOST).find_map(|seed| interleave(seed, Some(field)).err()));
        let Some(found) = found else {
            panic!("{} is not judged by what was before, and nothing is noticed", field.name())
        };
        println!("{}: {}", field.name(), found.lines().next().unwrap_or_default());
    }
}

//! What one policy alone lets land, told as plainly as can be. Whatever lands has to be let land by each that counts.

use std::collections::BTreeSet;

use jiff::Timestamp;
use policy::{
    Apply, Approval, DriftIgnore, ForgePolicy, MachinePolicy, OnFailure, Policy, ReleaseNote, Signatures, Waiver,
};
use rollout::{Expectation, Plan, StageId, StageName};

/// The repository that the forge of the team has; any other is that of whoever made it.
const REPOSITORY: &str = "platform/fleet";

/// What landed, or is about to.
pub struct Landing<'a> {
    pub stage: Option<&'a StageId>,
    pub at: Timestamp,
    /// Where and under whose name.
    pub under: &'a Policy,
    /// The host that its manifest comes from.
    pub host: Option<&'static str>,
    /// Whether its manifest carries a signature that fits.
    pub is_signed: bool,
    pub goes_down: bool,
    pub is_edited: bool,
    /// Whether it takes back what was merged too late.
    pub takes_back: bool,
    /// Who said yes: users of the team's forge, and authors of commits by their own word.
    pub on_forge: &'a BTreeSet<String>,
    pub by_commit: &'a BTreeSet<String>,
    /// Who wrote what lands.
    pub authors: &'a BTreeSet<String>,
    /// Who owns it, by the file as it is and as it was at the last commit.
    pub owners: (&'a str, &'a str),
}

/// Why the policies do not let it land; none where all do. The first is the newest.
pub fn objection(policies: &[&Policy], landing: &Landing<'_>) -> Option<String> {
    policies.iter().enumerate().find_map(|(place, policy)| {
        let name = if place == 0 { "the newest policy".to_owned() } else { format!("policy {place} of before") };
        one(policies, policy, place == 0, landing).map(|why| format!("{name} does not let it land: {why}"))
    })
}

fn one(all: &[&Policy], policy: &Policy, newest: bool, landing: &Landing<'_>) -> Option<String> {
    let under = landing.under;
    if policy.is_paused("mgmt", Timestamp::UNIX_EPOCH) {
        return Some("paused".to_owned());
    }
    if policy.deploy != under.deploy {
        return Some(format!("it lands in {:?}", under.deploy));
    }
    if policy.apply != under.apply {
        return Some("others apply it".to_owned());
    }
    if policy.author != under.author {
        return Some(format!("it lands under the name of {}", under.author.name));
    }
    if policy.signing.is_some() && policy.signing != under.signing {
        return Some("it is not signed so".to_owned());
    }
    let stage = landing.stage?;
    if landing.takes_back {
        let reverts = policy.stage_policy("mgmt", &stage.to_string()).on_stale_merge == OnFailure::Revert;
        return (!reverts).then(|| "what is merged too late is held".to_owned());
    }
    let windows = policy.windows("mgmt", &stage.to_string());
    if !windows.is_empty() && !windows.iter().any(|it| it.contains(landing.at)) {
        return Some(format!("no window is open at {}", landing.at));
    }
    if let Some(host) = landing.host.filter(|host| !policy.fetch_allow.iter().any(|allowed| allowed == host)) {
        return Some(format!("{host} may not be asked"));
    }
    if policy.signatures == Signatures::Require && !landing.is_signed {
        return Some("its manifest is not signed".to_owned());
    }
    if landing.goes_down && !policy.allows_downgrade("mgmt") {
        return Some("it goes down".to_owned());
    }
    approved(all, policy, newest, landing, &stage.to_string())
}

fn approved(all: &[&Policy], policy: &Policy, newest: bool, landing: &Landing<'_>, stage: &str) -> Option<String> {
    let wanted = policy.stage_policy("mgmt", stage);
    if landing.is_edited && !wanted.accept_edits {
        return Some("it has an edit".to_owned());
    }
    if wanted.approval == Approval::None {
        return None;
    }
    let rules = &wanted.approvers;
    let everybody: BTreeSet<String> = ["alice", "bob", "mallory"].map(str::to_owned).into();
    let said = match policy.forge.as_ref() {
        Some(forge) if is_the_teams(forge) => landing.on_forge,
        Some(_) => &everybody,
        None => landing.by_commit,
    };
    // Who is an author by any of them is one.
    let is_author = |name: &str| {
        all.iter().any(|policy| landing.authors.iter().any(|author| person(policy, author) == person(policy, name)))
    };
    let author = rules.author;
    let counted: Vec<&String> = said.iter().filter(|name| author || !is_author(name)).collect();
    let people: BTreeSet<String> = counted.iter().map(|name| person(policy, name)).collect();
    let minimum = rules.minimum.max(1) as usize;
    if people.len() < minimum {
        return Some(format!("{} of {minimum} approvals, {said:?} said yes", people.len()));
    }
    for (group, wanted) in &rules.groups {
        let members: BTreeSet<String> = policy.groups[group].iter().map(|name| person(policy, name)).collect();
        if people.intersection(&members).count() < *wanted as usize {
            return Some(format!("group {group} is missing, {said:?} said yes"));
        }
    }
    let owner = if newest { landing.owners.0 } else { landing.owners.1 };
    let is_owner = people.contains(&person(policy, owner));
    (rules.code_owners && !is_owner).then(|| format!("owner {owner} is missing, {said:?} said yes"))
}

pub fn is_the_teams(forge: &ForgePolicy) -> bool {
    forge.repository == REPOSITORY
}

/// The one name of a person.
fn person(policy: &Policy, name: &str) -> String {
    let is_it = |(login, others): &(&String, &Vec<String>)| *login == name || others.iter().any(|other| other == name);
    policy.people.iter().find(is_it).map_or_else(|| name.to_owned(), |(login, _)| login.clone())
}

/// By what a plan is judged that one of the policies does not say; none where all of them do.
pub fn lowered(policies: &[&Policy], plan: &Plan, notes: &[ReleaseNote]) -> Option<String> {
    let checks = plan.stages.iter().flat_map(|stage| &stage.expectations).find_map(|expectation| match expectation {
        Expectation::Checks(checks) => Some(checks),
        _ => None,
    });
    let machines = plan.stages.iter().filter(|stage| stage.stage.name == StageName::ControlPlane);
    let machines: Vec<&MachinePolicy> = machines.map(|stage| &stage.policy.machines).collect();
    policies.iter().find_map(|policy| {
        let given = policy.waivers("mgmt");
        let is_given =
            |waiver: &&Waiver| given.iter().any(|known| waiver.is_within(known) && waiver.expires <= known.expires);
        if let Some(waiver) = checks.and_then(|checks| checks.waivers.iter().find(|waiver| !is_given(waiver))) {
            return Some(format!("it is not waived: {waiver}"));
        }
        let ignored = policy.drift_ignores("mgmt");
        let is_ignored = |ignore: &&DriftIgnore| ignored.iter().any(|known| ignore.is_within(known));
        if checks.is_some_and(|checks| !checks.drift_ignores.iter().all(|ignore| is_ignored(&ignore))) {
            return Some("drift is not ignored".to_owned());
        }
        if policy.notes.iter().any(|note| !notes.contains(note)) {
            return Some("a note is not told".to_owned());
        }
        let asked = plan.stages.iter().flat_map(|stage| &stage.expectations);
        let mut asked = asked.filter_map(|expectation| match expectation {
            Expectation::SidecarsRead { rules } => Some(rules),
            _ => None,
        });
        if asked.any(|rules| !policy.injection.iter().all(|rule| rules.contains(rule))) {
            return Some("a sidecar is not asked after".to_owned());
        }
        let own = policy.stage_policy("mgmt", "control-plane").machines;
        let is_lower = |machines: &&MachinePolicy| {
            (own.gate.is_whole() && !machines.gate.is_whole())
                || (own.brakes != Some(false) && machines.brakes == Some(false))
        };
        machines.iter().any(is_lower).then(|| format!("{machines:?} is less than {own:?}"))
    })
}

/// Whether all of these let Stepgate itself apply what is deployed.
pub fn apply_directly(policies: &[&Policy]) -> bool {
    policies.iter().all(|policy| policy.apply == Apply::Direct)
}

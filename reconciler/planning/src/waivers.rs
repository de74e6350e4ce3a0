//! Waivers of checks that count for nothing any more.

use domain::{Problem, ProblemCode, Severity};
use jiff::civil::Date;
use policy::{Policy, Waiver};

/// Each waiver whose last day is over, once.
#[must_use]
pub fn problems(policy: &Policy, today: Date) -> Vec<Problem> {
    let fleet = policy.waivers.iter().map(|waiver| (None, waiver));
    let environments = policy.environments.values().flat_map(|level| &level.waivers).map(|waiver| (None, waiver));
    let clusters = policy
        .clusters
        .iter()
        .flat_map(|(name, level)| level.own.waivers.iter().map(move |waiver| (Some(name.as_str()), waiver)));
    let all = fleet.chain(environments).chain(clusters);
    all.filter(|(_, waiver)| waiver.has_expired(today)).map(|(cluster, waiver)| problem(cluster, waiver)).collect()
}

fn problem(cluster: Option<&str>, waiver: &Waiver) -> Problem {
    let object = waiver.object.as_ref().map(|object| format!(" for {object}")).unwrap_or_default();
    let owner = waiver.owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default();
    let message = format!(
        "the waiver of check {}{object}{owner} ended on {} and counts for nothing: {}",
        waiver.check, waiver.expires, waiver.reason
    );
    let problem = Problem::new(ProblemCode::ExpiredWaiver, message)
        .severity(Severity::Warning)
        .shown_path("stepgate.yaml")
        .hint("take it out, or decide anew until when it counts");
    match cluster {
        Some(cluster) => problem.cluster(cluster),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiver_is_told_from_the_day_after_its_last_one() {
        let text = "waivers: [{check: nodes, reason: r, owner: storage, expires: 2026-03-01}]\n\
                    clusters: {prod: {waivers: [{check: webhooks, object: Any/a/b, reason: s, expires: 2026-03-02}]}}\n";
        let path = domain::RepoPath::new("stepgate.yaml").unwrap();
        let (policy, problems) = policy::read_policy(&path, text.as_bytes());
        assert_eq!(problems, []);
        let told = |today: &str| -> Vec<String> {
            problems_of(&policy, today).iter().map(|problem| problem.message.clone()).collect()
        };
        assert_eq!(told("2026-03-01"), [""; 0]);
        let first = "the waiver of check nodes by storage ended on 2026-03-01 and counts for nothing: r";
        assert_eq!(told("2026-03-02"), [first]);
        let second = "the waiver of check webhooks for Any/a/b ended on 2026-03-02 and counts for nothing: s";
        assert_eq!(told("2026-03-03"), [first, second]);
    }

    fn problems_of(policy: &Policy, today: &str) -> Vec<Problem> {
        problems(policy, today.parse().unwrap())
    }
}

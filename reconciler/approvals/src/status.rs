//! Whether what is proposed may be merged as it is: of each cluster, and of a branch as a whole, for branch protection to require.

use rollout::{ApprovalRequest, ApprovalScope};

use crate::{CommitStatus, StatusState};

/// The longest description of a status, in characters.
const LONGEST_DESCRIPTION: usize = 140;

/// Whether the part of one cluster may be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// What speaks against it; none where nothing is missing.
    pub against: Option<String>,
    /// Whether that cannot pass by itself.
    pub is_wrong: bool,
    /// Who approved it, where that has to be known.
    pub approvers: Vec<String>,
}

impl Readiness {
    /// Of a part that people changed or not, that somebody holds or not, and that is asked for now. Where it only stays, because its gate is
    /// looked at again, it is as ready as `missing` says: a status that came and went with each reading would tell nobody anything.
    pub fn of(
        edited: Option<String>,
        held_by: Option<&str>,
        request: Option<&ApprovalRequest>,
        missing: &[String],
    ) -> Self {
        let approvers = request.into_iter().flat_map(|request| &request.approvers);
        let is_wrong = edited.is_some();
        let against = if edited.is_some() {
            edited
        } else if let Some(by) = held_by {
            Some(format!("held by {by}"))
        } else {
            match request {
                None => (!missing.is_empty()).then(|| missing.join("; ")),
                Some(request) if !request.missing.is_empty() => Some(request.missing.join("; ")),
                Some(request) => request.not_yet.clone(),
            }
        };
        Self { against, is_wrong, approvers: approvers.map(|given| given.who.to_string()).collect() }
    }

    /// For a cell of a table.
    pub fn cell(&self) -> String {
        match &self.against {
            Some(against) => against.clone(),
            None if self.approvers.is_empty() => "ready".to_owned(),
            None => format!("approved by {}", self.approvers.join(", ")),
        }
    }
}

/// The status of a branch, from the readiness of each cluster by name. It is as good as the worst of them.
pub fn status(scope: &ApprovalScope, parts: &[(&str, Readiness)]) -> CommitStatus {
    let not_ready: Vec<&(&str, Readiness)> =
        parts.iter().filter(|(_, readiness)| readiness.against.is_some()).collect();
    let state = if parts.iter().any(|(_, readiness)| readiness.is_wrong) {
        StatusState::Failure
    } else if not_ready.is_empty() {
        StatusState::Success
    } else {
        StatusState::Pending
    };
    let mut said: Vec<String> = parts.iter().map(|(_, readiness)| readiness.cell()).collect();
    said.dedup();
    let description = match (said.as_slice(), not_ready.first()) {
        ([one], None) if one == "ready" && parts.len() == 1 => "the gate before it is open".to_owned(),
        ([one], None) if one == "ready" => format!("the gates before all {} are open", parts.len()),
        ([one], _) => one.clone(),
        (_, None) => format!("all {} clusters are approved", parts.len()),
        (_, Some((cluster, readiness))) => {
            let ready = parts.len() - not_ready.len();
            format!("{ready} of {} clusters are ready; {cluster}: {}", parts.len(), readiness.cell())
        }
    };
    CommitStatus { state, context: context(scope), description: short(description) }
}

/// The name of a status.
pub fn context(scope: &ApprovalScope) -> String {
    match scope {
        ApprovalScope::Stage(stage) => format!("stepgate/{stage}"),
        ApprovalScope::Rollout => "stepgate/rollout".to_owned(),
    }
}

/// As much of a description as every forge takes.
fn short(text: String) -> String {
    if text.chars().count() <= LONGEST_DESCRIPTION {
        return text;
    }
    text.chars().take(LONGEST_DESCRIPTION - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness(against: Option<&str>) -> Readiness {
        Readiness { against: against.map(str::to_owned), is_wrong: false, approvers: Vec::new() }
    }

    fn told(parts: &[(&str, Readiness)]) -> (StatusState, String) {
        let status = status(&ApprovalScope::Stage("capi".parse().unwrap()), parts);
        assert_eq!(status.context, "stepgate/capi");
        (status.state, status.description)
    }

    #[test]
    fn a_branch_is_as_ready_as_the_least_of_its_clusters() {
        let (ready, missing) = (readiness(None), readiness(Some("0 of 2 approvals")));
        let approved = Readiness { approvers: vec!["alice".to_owned(), "bob".to_owned()], ..readiness(None) };
        let edited = Readiness { is_wrong: true, ..readiness(Some("people have changed the branch")) };
        for (parts, state, wanted) in [
            (vec![("a", ready.clone())], StatusState::Success, "the gate before it is open"),
            (vec![("a", ready.clone()), ("b", ready.clone())], StatusState::Success, "the gates before all 2 are open"),
            (vec![("a", approved.clone())], StatusState::Success, "approved by alice, bob"),
            (vec![("a", approved), ("b", ready.clone())], StatusState::Success, "all 2 clusters are approved"),
            (vec![("a", missing.clone())], StatusState::Pending, "0 of 2 approvals"),
            (vec![("a", missing.clone()), ("b", missing.clone())], StatusState::Pending, "0 of 2 approvals"),
            (
                vec![("a", ready.clone()), ("b", missing)],
                StatusState::Pending,
                "1 of 2 clusters are ready; b: 0 of 2 approvals",
            ),
            (
                vec![("a", ready), ("b", edited)],
                StatusState::Failure,
                "1 of 2 clusters are ready; b: people have changed the branch",
            ),
        ] {
            assert_eq!(told(&parts), (state, wanted.to_owned()));
        }
        assert_eq!(told(&[("a", readiness(Some(&"x".repeat(500))))]).1.chars().count(), LONGEST_DESCRIPTION);
    }
}

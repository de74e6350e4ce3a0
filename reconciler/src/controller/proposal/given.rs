//! Who approved a pull request, as the forge knows it.

use rollout::{GivenApproval, Means, Person, PlanDigest, Roster};

use super::command::Conversation;
use crate::controller::people::roster;
use crate::controller::planner::FleetReading;
use crate::forge::{Forge, ForgeError, Permission, PullRequest, PullRequestState};

/// Everybody who approved it by a review of what its branch holds, by a comment, or by merging it. Who may not write in the repository counts
/// only where `stepgate.yaml` names them; whoever opened it for Stepgate never does.
pub(super) async fn given(
    forge: &Forge,
    reading: &FleetReading,
    pull: &PullRequest,
    conversation: &Conversation,
    plan: &PlanDigest,
) -> Result<Vec<GivenApproval>, ForgeError> {
    let roster = roster(&reading.fleet.policy);
    let mut given: Vec<GivenApproval> = Vec::new();
    let mut add = |login: &str, means: Means, at: Option<jiff::Timestamp>| {
        if let Ok(who @ Person::Login(_)) = login.parse::<Person>()
            && login != pull.author
            && !given.iter().any(|known| known.who == who)
        {
            given.push(GivenApproval { who, plan: plan.clone(), at, means });
        }
    };
    for review in forge.approvals(pull.number).await? {
        let current = review.commit.as_ref().is_none_or(|commit| *commit == pull.head);
        if current && may_approve(forge, &roster, &review.by).await? {
            add(&review.by, Means::Review, None);
        }
    }
    // Their permission was asked for when the comments were read.
    for login in &conversation.approvers {
        add(login, Means::Comment, None);
    }
    // Whoever could merge it may write.
    if let PullRequestState::Merged { by: Some(by), at } = &pull.state {
        add(by, Means::Merge, *at);
    }
    Ok(given)
}

async fn may_approve(forge: &Forge, roster: &Roster, login: &str) -> Result<bool, ForgeError> {
    if login.parse().is_ok_and(|person| roster.names_person(&person)) {
        return Ok(true);
    }
    match forge.permission(login).await {
        Ok(permission) => Ok(permission == Permission::Write),
        // Whose permission cannot be looked up is not known to have any.
        Err(ForgeError::Forbidden { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

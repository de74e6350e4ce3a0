//! A pull request with what was said below it, and what that comes to for each cluster that it asks for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{ClusterName, PlanDigest};
use policy::{GivenApproval, GivenTick, Means, Person, Roster};

use crate::reconcile::planner::FleetReading;
use approvals::comments::command::speakers;
use approvals::comments::conversation::{Conversation, Said};
use approvals::metadata::PullRequestMetadata;
use forge::{Comment, Forge, ForgeError, Permission, PullRequest, PullRequestState, Review};
use host::once::Once;

/// What people may do, as far as they were asked after. Each is asked after once.
#[derive(Debug, Default)]
pub(super) struct Permissions(Mutex<BTreeMap<String, Arc<Once<Option<Permission>>>>>);

impl Permissions {
    /// What somebody may do; none where that may not be looked up.
    async fn of(&self, forge: &Forge, login: &str) -> Result<Option<Permission>, ForgeError> {
        let place = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(login.to_owned()).or_default())
        };
        let ask = async || match forge.permission(login).await {
            Ok(permission) => Ok(Some(permission)),
            // Whose permission cannot be looked up commands nothing, and is told so.
            Err(ForgeError::Forbidden { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        place.get_or_try(ask).await.copied()
    }
}

/// A pull request with what was said below it. It is asked for once, whatever it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The pull request, with who merged or closed it.
    pub pull: PullRequest,
    /// What it showed, as far as that is certain.
    pub(super) marks: PullRequestMetadata,
    /// What the comments come to.
    pub(super) conversation: Conversation,
    reviews: Vec<Review>,
    /// What reviewers may do, as far as that matters and may be looked up.
    permissions: BTreeMap<String, Permission>,
}

impl Thread {
    /// One below which nobody has said anything.
    pub(super) fn silent(pull: PullRequest, marks: PullRequestMetadata) -> Self {
        let (conversation, reviews, permissions) = (Conversation::default(), Vec::new(), BTreeMap::new());
        Self { pull, marks, conversation, reviews, permissions }
    }

    /// Reads what was said below a pull request, the one after `before` of its branch; the reviews too where they matter.
    pub(super) async fn read(
        forge: &Forge,
        reading: &FleetReading,
        (pull, before): (&PullRequest, u64),
        reviews: bool,
        known: &Permissions,
    ) -> Result<Self, ForgeError> {
        let unknown =
            matches!(pull.state, PullRequestState::Merged { by: None, .. } | PullRequestState::Closed { by: None });
        let whole = if unknown { forge.pull(pull.number).await? } else { None };
        let pull = whole.unwrap_or_else(|| pull.clone());
        let comments = if pull.comments == Some(0) { Vec::new() } else { forge.comments(pull.number).await? };
        let reviews = if reviews { forge.approvals(pull.number).await? } else { Vec::new() };
        // Those too whom the newest policy names: it may have begun to just now.
        let reviewers = reviews.iter().map(|review| review.by.as_str());
        let mut permissions = BTreeMap::new();
        for login in speakers(&comments).into_iter().chain(reviewers) {
            if permissions.contains_key(login) {
                continue;
            }
            let permission = known.of(forge, login).await?;
            permissions.extend(permission.map(|permission| (login.to_owned(), permission)));
        }
        // Whoever was held by name has left what is shown, and is held by that name all the same.
        let names: Vec<&str> = reading.fleet.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let marks = PullRequestMetadata::sealed_in(&pull, before, &forge.seal()?);
        Ok(Self::of(pull, marks, &comments, reviews, permissions, &names))
    }

    pub(super) fn of(
        pull: PullRequest,
        marks: PullRequestMetadata,
        comments: &[Comment],
        reviews: Vec<Review>,
        permissions: BTreeMap<String, Permission>,
        names: &[&str],
    ) -> Self {
        let clusters: Vec<&str> = marks.clusters().map(ClusterName::as_str).collect();
        let standing = match clusters.as_slice() {
            [] => "nothing is asked now".to_owned(),
            [one] => format!("the text above is what is asked of {one}"),
            many => format!("the text above is what is asked, for {} clusters", many.len()),
        };
        let conversation = Conversation::of(comments, &pull.author, &permissions, names, &standing);
        Self { pull, marks, conversation, reviews, permissions }
    }

    /// What the comments come to for a plan of a cluster.
    pub(super) fn said(&self, cluster: &ClusterName, plan: &PlanDigest) -> Said {
        let mark = self.marks.of(cluster, plan);
        self.conversation.about(cluster.as_str(), |comment| mark.is_some_and(|mark| mark.is_before(comment)))
    }

    /// Who approved by a review what was shown of a plan of a cluster.
    pub(super) fn reviewers(&self, cluster: &ClusterName, plan: &PlanDigest) -> Vec<&str> {
        let Some(mark) = self.marks.of(cluster, plan) else { return Vec::new() };
        let seen = |review: &&Review| self.marks.was_seen(mark, review.commit.as_deref());
        self.reviews.iter().filter(seen).map(|review| review.by.as_str()).collect()
    }

    /// Everybody who approved a plan of a cluster by a review of a head that showed it, by a comment, or by merging it. Who may not write in
    /// the repository counts only where `stepgate.yaml` names them; whoever opened it for Stepgate never does.
    pub(super) fn given(&self, roster: &Roster, cluster: &ClusterName, plan: &PlanDigest) -> Vec<GivenApproval> {
        let mut given: Vec<GivenApproval> = Vec::new();
        let mut add = |login: &str, means: Means, at: Option<jiff::Timestamp>| {
            if let Ok(who @ Person::Login(_)) = login.parse::<Person>()
                && login != self.pull.author
                && !given.iter().any(|known| known.who == who)
            {
                given.push(GivenApproval { who, plan: plan.clone(), at, means });
            }
        };
        for login in self.reviewers(cluster, plan) {
            let named = login.parse().is_ok_and(|person| roster.names_person(&person));
            if named || self.permissions.get(login) == Some(&Permission::Write) {
                add(login, Means::Review, None);
            }
        }
        // Their permission was looked at when the comments were read.
        for login in &self.said(cluster, plan).approvers {
            add(login, Means::Comment, None);
        }
        // Whoever could merge it may write.
        if let PullRequestState::Merged { by: Some(by), at } = &self.pull.state {
            add(by, Means::Merge, *at);
        }
        given
    }

    /// Every box that somebody ticked by a comment on a plan of a cluster.
    pub(super) fn ticks(&self, cluster: &ClusterName, plan: &PlanDigest) -> Vec<GivenTick> {
        let ticks = self.said(cluster, plan).ticks.into_iter().filter(|(_, login)| *login != self.pull.author);
        let tick = |(name, login): (String, String)| {
            let who @ Person::Login(_) = login.parse::<Person>().ok()? else { return None };
            Some(GivenTick { name, who, plan: plan.clone(), at: None, means: Means::Comment })
        };
        ticks.filter_map(tick).collect()
    }
}

#[cfg(test)]
mod tests {
    use domain::CommitId;

    use super::*;
    use approvals::metadata::Place;

    fn head(digit: &str) -> CommitId {
        digit.repeat(40).parse().unwrap()
    }

    fn plan(of: &str) -> PlanDigest {
        PlanDigest::of([of.as_bytes()])
    }

    /// `a` is shown since the first head; the plan of `b` was replaced at the second one, after comment 5.
    fn thread(state: PullRequestState) -> Thread {
        let (a, b): (ClusterName, ClusterName) = ("a".parse().unwrap(), "b".parse().unwrap());
        let (one, two, new) = (plan("1"), plan("2"), plan("3"));
        let marks = PullRequestMetadata::default().shown(Place::After(0), &head("1"), [(&a, &one), (&b, &two)], 0);
        let marks = marks.shown(Place::Number(7), &head("2"), [(&a, &one), (&b, &new)], 5);
        let pull = PullRequest {
            number: 7,
            branch: "stepgate/prod/capi".to_owned(),
            url: "https://forge/7".to_owned(),
            title: String::new(),
            body: String::new(),
            head: head("2").to_string(),
            author: "bot".to_owned(),
            comments: None,
            state,
        };
        let comment =
            |id: u64, by: &str, body: &str| Comment { id, by: by.to_owned(), body: body.to_owned(), edited: false };
        let comments = [comment(4, "alice", "/stepgate approve"), comment(9, "bob", "/stepgate approve b")];
        let review = |by: &str, digit: &str| Review { by: by.to_owned(), commit: Some(head(digit).to_string()) };
        let reviews = vec![review("carol", "1"), review("dave", "2"), review("olga", "2"), review("eve", "9")];
        let writes = ["alice", "bob", "carol", "eve"].map(|name| (name.to_owned(), Permission::Write));
        let permissions = writes.into_iter().chain([("olga".to_owned(), Permission::Read)]).collect();
        Thread::of(pull, marks, &comments, reviews, permissions, &["a", "b"])
    }

    fn given(thread: &Thread, cluster: &str, of: &str) -> Vec<String> {
        let mut roster = Roster::default();
        roster.groups.insert("platform".to_owned(), vec!["dave".parse().unwrap()]);
        let given = thread.given(&roster, &cluster.parse().unwrap(), &plan(of));
        given.iter().map(|given| given.who.to_string()).collect()
    }

    #[test]
    fn words_count_for_what_was_shown_when_they_were_said() {
        let thread = thread(PullRequestState::Open);
        // A review of the first head, and a comment from before, are about the plan of `a` alone.
        assert_eq!(given(&thread, "a", "1"), ["carol", "dave", "alice"]);
        assert_eq!(given(&thread, "b", "3"), ["dave", "bob"]);
        // Nobody looked at what is not shown.
        assert_eq!(given(&thread, "b", "2"), [""; 0]);
        assert_eq!(given(&thread, "c", "1"), [""; 0]);
    }

    #[test]
    fn a_merge_approves_every_part() {
        let merged = thread(PullRequestState::Merged { by: Some("mia".to_owned()), at: None });
        assert_eq!(given(&merged, "a", "1").last().map(String::as_str), Some("mia"));
        assert_eq!(given(&merged, "b", "3").last().map(String::as_str), Some("mia"));
    }
}

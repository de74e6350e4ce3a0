//! GitHub (REST, 2022-11-28).

use forge::{
    Comment, CommitStatus, Edit, ForgeError, NewPullRequest, Permission, PullRequestState, Review, StatusState,
};
use policy::ForgeKind;
use serde_json::{Value, json};

use super::{BRANCH, Exchange, Scene};

const ROOT: &str = "/api/v3/repos/platform/fleet";
const FIND: &str =
    "pulls?state=all&head=platform%3Astepgate%2Fabc%2Fcapi&base=deploy&sort=created&direction=desc&per_page=1";

fn path(rest: &str) -> String {
    format!("{ROOT}/{rest}")
}

fn pull(state: &str, merged: bool) -> Value {
    json!({
        "number": 7, "html_url": "https://github.example.com/platform/fleet/pull/7", "title": "mgmt: capi v1", "body": null,
        "state": state, "merged_at": merged.then_some("2026-11-01T10:00:00Z"), "updated_at": "2026-11-01T10:00:01Z",
        "user": {"login": "stepgate-bot"}, "head": {"label": format!("platform:{BRANCH}"), "ref": BRANCH, "sha": "aaaa", "repo": {"id": 11}},
        "base": {"ref": "deploy", "repo": {"id": 11}}, "draft": false,
    })
}

#[tokio::test]
async fn a_pull_request_is_looked_for_opened_and_changed() {
    let new = json!({"base": "deploy", "head": BRANCH, "title": "T", "body": "B"});
    let scene = Scene::start(
        ForgeKind::GitHub,
        vec![
            Exchange::get(&path(FIND), &json!([])).header("accept", "application/vnd.github+json"),
            Exchange::new("POST", &path("pulls"), 201, &pull("open", false)).body(new.clone()),
            Exchange::new("POST", &path("pulls"), 422, &json!({"message": "Validation Failed", "errors": [
                {"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for platform:x."}]}))
            .body(new),
            Exchange::new("PATCH", &path("pulls/7"), 200, &pull("open", false)).body(json!({"body": "C"})),
            Exchange::new("PATCH", &path("pulls/7"), 200, &pull("closed", false))
                .body(json!({"title": "U", "state": "closed"})),
        ],
    )
    .await;
    assert_eq!(scene.forge.find("deploy", BRANCH).await, Ok(None));
    let new = NewPullRequest { base: "deploy", head: BRANCH, title: "T", body: "B" };
    let opened = scene.forge.open(&new).await.unwrap();
    assert_eq!((opened.number, opened.state, opened.head.as_str()), (7, PullRequestState::Open, "aaaa"));
    assert!(matches!(scene.forge.open(&new).await, Err(ForgeError::Refused { status: 422, .. })));
    scene.forge.edit(7, &Edit { body: Some("C"), ..Edit::default() }).await.unwrap();
    scene.forge.edit(7, &Edit { title: Some("U"), close: true, ..Edit::default() }).await.unwrap();
    scene.replay.finish();
}

#[tokio::test]
async fn who_merged_and_who_closed_is_read_from_where_it_stands() {
    let mut whole = pull("closed", true);
    whole["merged_by"] = json!({"login": "alice"});
    let scene = Scene::start(
        ForgeKind::GitHub,
        vec![
            Exchange::get(&path(FIND), &json!([pull("closed", true)])),
            Exchange::get(&path("pulls/7"), &whole),
            Exchange::get(&path(FIND), &json!([pull("closed", false)])),
            Exchange::get(&path("issues/7"), &json!({"number": 7, "closed_by": {"login": "bob"}})),
        ],
    )
    .await;
    let merged = scene.forge.find("deploy", BRANCH).await.unwrap().unwrap();
    let at = Some("2026-11-01T10:00:00Z".parse().unwrap());
    assert_eq!(merged.state, PullRequestState::Merged { by: Some("alice".to_owned()), at });
    let closed = scene.forge.find("deploy", BRANCH).await.unwrap().unwrap();
    assert_eq!(closed.state, PullRequestState::Closed { by: Some("bob".to_owned()) });
    scene.replay.finish();
}

#[tokio::test]
async fn statuses_reviews_comments_and_permissions_are_read_and_written() {
    let review =
        |login: &str, state: &str, commit: &str| json!({"user": {"login": login}, "state": state, "commit_id": commit});
    let next =
        format!("<http://x{}>; rel=\"next\", <http://x>; rel=\"last\"", path("pulls/7/reviews?per_page=100&page=2"));
    let status = CommitStatus {
        state: StatusState::Success,
        context: "stepgate/capi".to_owned(),
        description: "open".to_owned(),
    };
    let scene = Scene::start(
        ForgeKind::GitHub,
        vec![
            Exchange::get(&path("commits/aaaa/status?per_page=100"), &json!({"state": "pending", "statuses": [
                {"state": "error", "context": "other", "description": null}, {"state": "pending", "context": "stepgate/capi", "description": "x"}]})),
            Exchange::new("POST", &path("statuses/aaaa"), 201, &json!({}))
                .body(json!({"state": "success", "context": "stepgate/capi", "description": "open"})),
            Exchange::get(&path("pulls/7/reviews?per_page=100&page=1"), &json!([
                review("alice", "APPROVED", "aaaa"), review("bob", "APPROVED", "aaaa"), review("carol", "APPROVED", "old")]))
            .answers_header("link", &next),
            Exchange::get(&path("pulls/7/reviews?per_page=100&page=2"), &json!([
                review("bob", "CHANGES_REQUESTED", "aaaa"), review("alice", "COMMENTED", "aaaa")])),
            Exchange::get(&path("issues/7/comments?per_page=100&page=1"), &json!([
                {"id": 1, "user": {"login": "alice"}, "body": "hi", "created_at": "2026-01-05T09:00:00Z", "updated_at": "2026-01-05T09:00:00Z"},
                {"id": 2, "user": null, "body": null, "created_at": "2026-01-05T09:00:00Z", "updated_at": "2026-01-05T09:00:01Z"}])),
            Exchange::new("POST", &path("issues/7/comments"), 201, &json!({"id": 3})).body(json!({"body": "one"})),
            Exchange::new("PATCH", &path("issues/comments/3"), 200, &json!({"id": 3})).body(json!({"body": "two"})),
            Exchange::get(&path("collaborators/alice/permission"), &json!({"permission": "write"})),
            Exchange::new("GET", &path("collaborators/stranger/permission"), 404, &json!({"message": "Not Found"})),
        ],
    )
    .await;
    let forge = &scene.forge;
    let pending = CommitStatus { state: StatusState::Pending, description: "x".to_owned(), ..status.clone() };
    assert_eq!(forge.status("aaaa", "stepgate/capi").await, Ok(Some(pending)));
    forge.set_status("aaaa", &status).await.unwrap();
    let review = |by: &str, commit: &str| Review { by: by.to_owned(), commit: Some(commit.to_owned()) };
    assert_eq!(forge.approvals(7).await, Ok(vec![review("alice", "aaaa"), review("carol", "old")]));
    let first = Comment { id: 1, by: "alice".to_owned(), body: "hi".to_owned(), edited: false };
    let comments = forge.comments(7).await.unwrap();
    assert_eq!((&comments[0], comments[1].edited), (&first, true));
    forge.comment(7, None, "one").await.unwrap();
    forge.comment(7, Some(3), "two").await.unwrap();
    assert_eq!(forge.permission("alice").await, Ok(Permission::Write));
    assert_eq!(forge.permission("stranger").await, Ok(Permission::None));
    scene.replay.finish();
}

#[tokio::test]
async fn merged_ones_are_listed_once_for_all_branches_and_one_tells_by_whom() {
    let mut fork = pull("closed", true);
    fork["head"]["label"] = json!("somebody:stepgate/abc/capi");
    let mut whole = pull("closed", true);
    (whole["merged_by"], whole["comments"]) = (json!({"login": "alice"}), json!(3));
    let list = path("pulls?state=closed&base=deploy&sort=updated&direction=desc&per_page=100");
    let scene = Scene::start(
        ForgeKind::GitHub,
        vec![
            Exchange::get(&list, &json!([fork, pull("closed", true)])),
            Exchange::get(&path("pulls/7"), &whole),
            Exchange::new("GET", &path("pulls/8"), 404, &json!({"message": "Not Found"})),
        ],
    )
    .await;
    let merged = scene.forge.recent_ones("deploy").await.unwrap();
    assert_eq!(merged.iter().map(|pull| pull.branch.as_str()).collect::<Vec<_>>(), [BRANCH], "that of a fork is none");
    let whole = scene.forge.pull(merged[0].number).await.unwrap().unwrap();
    assert!(matches!(&whole.state, PullRequestState::Merged { by: Some(by), .. } if by == "alice"));
    assert_eq!(whole.comments, Some(3));
    assert_eq!(scene.forge.pull(8).await, Ok(None));
    scene.replay.finish();
}

#[tokio::test]
async fn the_newest_pull_requests_of_a_branch_are_one_page() {
    let list = path(
        "pulls?state=all&head=platform%3Astepgate%2Fabc%2Fcapi&base=deploy&sort=created&direction=desc&per_page=10",
    );
    let exchanges =
        vec![Exchange::get(&list, &json!([pull("open", false), pull("closed", true), pull("closed", false)]))];
    let scene = Scene::start(ForgeKind::GitHub, exchanges).await;
    let found = scene.forge.of_branch("deploy", BRANCH).await.unwrap();
    let states: Vec<_> = found.into_iter().map(|pull| pull.state).collect();
    let at = Some("2026-11-01T10:00:00Z".parse().unwrap());
    let merged = PullRequestState::Merged { by: None, at };
    assert_eq!(states, [PullRequestState::Open, merged, PullRequestState::Closed { by: None }]);
    scene.replay.finish();
}

/// A fork in the same organisation has the same owner, so the label of its branch is that of ours.
#[tokio::test]
async fn a_fork_in_the_same_organisation_is_not_our_branch() {
    let fork = |repository: Value| {
        let mut fork = pull("open", false);
        (fork["number"], fork["head"]["repo"]) = (json!(9), repository);
        fork
    };
    let list =
        "pulls?state=all&head=platform%3Astepgate%2Fabc%2Fcapi&base=deploy&sort=created&direction=desc&per_page=";
    let (newest, all) = (path(&format!("{list}10")), path(&format!("{list}100&page=1")));
    let gone = fork(Value::Null);
    let many: Vec<Value> = std::iter::repeat_n(fork(json!({"id": 12})), 10).collect();
    let scene = Scene::start(
        ForgeKind::GitHub,
        vec![
            Exchange::get(&newest, &json!([fork(json!({"id": 12})), gone, pull("open", false)])),
            // However many there are, ours is found.
            Exchange::get(&newest, &json!(many)),
            Exchange::get(&all, &json!([fork(json!({"id": 12})), pull("open", false)])),
            Exchange::get(&path(FIND), &json!([fork(json!({"id": 12}))])),
            Exchange::get(&newest, &json!([fork(json!({"id": 12})), pull("open", false)])),
            Exchange::get(&path("pulls/9"), &fork(json!({"id": 12}))),
        ],
    )
    .await;
    let forge = &scene.forge;
    for _ in 0..2 {
        let found = forge.of_branch("deploy", BRANCH).await.unwrap();
        assert_eq!(found.iter().map(|pull| pull.number).collect::<Vec<_>>(), [7]);
    }
    assert_eq!(forge.find("deploy", BRANCH).await.unwrap().map(|pull| pull.number), Some(7));
    assert_eq!(forge.pull(9).await, Ok(None));
    scene.replay.finish();
}

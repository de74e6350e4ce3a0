//! GitLab (REST, v4).

use forge::{
    Comment, CommitStatus, Edit, ForgeError, NewPullRequest, Permission, PullRequestState, Review, StatusState,
};
use policy::ForgeKind;
use serde_json::{Value, json};

use super::{BRANCH, Exchange, Scene};

const ROOT: &str = "/api/v4/projects/platform%2Ffleet";
const FIND: &str = "merge_requests?state=all&source_branch=stepgate%2Fabc%2Fcapi&target_branch=deploy&order_by=created_at&sort=desc&per_page=1";

fn path(rest: &str) -> String {
    format!("{ROOT}/{rest}")
}

fn merge(state: &str) -> Value {
    json!({
        "id": 99, "iid": 7, "web_url": "https://gitlab.example.com/platform/fleet/-/merge_requests/7", "title": "mgmt: capi v1",
        "description": "text", "state": state, "sha": "aaaa", "source_branch": BRANCH, "target_branch": "deploy",
        "source_project_id": 5, "target_project_id": 5,
        "author": {"id": 1, "username": "stepgate-bot"}, "updated_at": "2026-11-01T10:00:01.000Z",
        "merge_user": (state == "merged").then(|| json!({"username": "alice"})),
        "merged_at": (state == "merged").then_some("2026-11-01T10:00:00.123Z"),
        "closed_by": (state == "closed").then(|| json!({"username": "bob"})),
    })
}

#[tokio::test]
async fn a_merge_request_is_looked_for_opened_and_changed() {
    let new = json!({"source_branch": BRANCH, "target_branch": "deploy", "title": "T", "description": "B"});
    let scene = Scene::start(
        ForgeKind::GitLab,
        vec![
            Exchange::get(&path(FIND), &json!([])),
            Exchange::new("POST", &path("merge_requests"), 201, &merge("opened")).body(new.clone()),
            Exchange::new(
                "POST",
                &path("merge_requests"),
                409,
                &json!({"message": ["Another open merge request already exists for this source branch: !7"]}),
            )
            .body(new),
            Exchange::new("PUT", &path("merge_requests/7"), 200, &merge("opened")).body(json!({"description": "C"})),
            Exchange::new("PUT", &path("merge_requests/7"), 200, &merge("closed"))
                .body(json!({"title": "U", "state_event": "close"})),
            Exchange::get(&path(FIND), &json!([merge("merged")])),
            Exchange::get(&path(FIND), &json!([merge("closed")])),
            Exchange::new("GET", &path(FIND), 404, &json!({"message": "404 Project Not Found"})),
        ],
    )
    .await;
    let forge = &scene.forge;
    assert_eq!(forge.find("deploy", BRANCH).await, Ok(None));
    let new = NewPullRequest { base: "deploy", head: BRANCH, title: "T", body: "B" };
    let opened = forge.open(&new).await.unwrap();
    assert_eq!((opened.number, opened.state, opened.body.as_str()), (7, PullRequestState::Open, "text"));
    let again = forge.open(&new).await.unwrap_err();
    assert!(matches!(again, ForgeError::Refused { status: 409, .. }) && again.to_string().contains("!7"), "{again}");
    forge.edit(7, &Edit { body: Some("C"), ..Edit::default() }).await.unwrap();
    forge.edit(7, &Edit { title: Some("U"), close: true, ..Edit::default() }).await.unwrap();
    let merged = forge.find("deploy", BRANCH).await.unwrap().unwrap();
    let at = Some("2026-11-01T10:00:00.123Z".parse().unwrap());
    assert_eq!(merged.state, PullRequestState::Merged { by: Some("alice".to_owned()), at });
    let closed = forge.find("deploy", BRANCH).await.unwrap().unwrap();
    assert_eq!(closed.state, PullRequestState::Closed { by: Some("bob".to_owned()) });
    assert!(matches!(forge.find("deploy", BRANCH).await, Err(ForgeError::NotFound { .. })));
    scene.replay.finish();
}

#[tokio::test]
async fn statuses_approvals_notes_and_members_are_read_and_written() {
    let failure = CommitStatus {
        state: StatusState::Failure,
        context: "stepgate/capi".to_owned(),
        description: "void".to_owned(),
    };
    let member = |name: &str, level: u64, state: &str| json!({"username": name, "access_level": level, "state": state});
    let scene = Scene::start(
        ForgeKind::GitLab,
        vec![
            Exchange::get(
                &path("repository/commits/aaaa/statuses?name=stepgate%2Fcapi"),
                &json!([
                {"status": "failed", "name": "stepgate/capi", "description": "void"}]),
            ),
            Exchange::new("POST", &path("statuses/aaaa"), 201, &json!({}))
                .body(json!({"state": "failed", "name": "stepgate/capi", "description": "void"})),
            Exchange::get(
                &path("merge_requests/7/approvals"),
                &json!({"approved_by": [{"user": {"username": "alice"}}]}),
            ),
            Exchange::get(
                &path("merge_requests/7/notes?sort=asc&order_by=created_at&per_page=100&page=1"),
                &json!([
                {"id": 1, "body": "added 1 commit", "author": {"username": "bot"}, "system": true},
                {"id": 2, "body": "hi", "author": {"username": "alice"}, "system": false,
                 "created_at": "2026-01-05T09:00:00.000Z", "updated_at": "2026-01-05T09:00:07.000Z"}]),
            ),
            Exchange::new("POST", &path("merge_requests/7/notes"), 201, &json!({"id": 3})).body(json!({"body": "one"})),
            Exchange::new("PUT", &path("merge_requests/7/notes/3"), 200, &json!({"id": 3}))
                .body(json!({"body": "two"})),
            Exchange::get(
                &path("members/all?query=al&per_page=100&page=1"),
                &json!([member("alice", 50, "active"), member("al", 20, "active")]),
            ),
            Exchange::get(
                &path("members/all?query=alice&per_page=100&page=1"),
                &json!([member("alice", 30, "active")]),
            ),
            Exchange::get(&path("members/all?query=gone&per_page=100&page=1"), &json!([member("gone", 40, "blocked")])),
        ],
    )
    .await;
    let forge = &scene.forge;
    assert_eq!(forge.status("aaaa", "stepgate/capi").await, Ok(Some(failure.clone())));
    forge.set_status("aaaa", &failure).await.unwrap();
    assert_eq!(forge.approvals(7).await, Ok(vec![Review { by: "alice".to_owned(), commit: None }]));
    let comment = Comment { id: 2, by: "alice".to_owned(), body: "hi".to_owned(), edited: true };
    assert_eq!(forge.comments(7).await, Ok(vec![comment]));
    forge.comment(7, None, "one").await.unwrap();
    forge.comment(7, Some(3), "two").await.unwrap();
    assert_eq!(forge.permission("al").await, Ok(Permission::Read));
    assert_eq!(forge.permission("alice").await, Ok(Permission::Write));
    assert_eq!(forge.permission("gone").await, Ok(Permission::None));
    scene.replay.finish();
}

#[tokio::test]
async fn merged_ones_are_listed_once_for_all_branches_and_tell_by_whom() {
    let mut fork = merge("merged");
    fork["source_project_id"] = json!(6);
    let merged = "merge_requests?state=merged&target_branch=deploy&order_by=updated_at&sort=desc&per_page=100";
    let scene = Scene::start(
        ForgeKind::GitLab,
        vec![
            Exchange::get(&path(merged), &json!([fork, merge("merged")])),
            Exchange::get(&path("merge_requests/7"), &merge("merged")),
        ],
    )
    .await;
    let merged = scene.forge.recent_ones("deploy").await.unwrap();
    assert_eq!(merged.iter().map(|pull| pull.branch.as_str()).collect::<Vec<_>>(), [BRANCH], "that of a fork is none");
    assert!(matches!(&merged[0].state, PullRequestState::Merged { by: Some(by), .. } if by == "alice"));
    assert_eq!(scene.forge.pull(7).await.unwrap().as_ref(), merged.first());
    scene.replay.finish();
}

#[tokio::test]
async fn a_fork_is_not_our_branch_however_many_there_are() {
    let fork = |project: Value| {
        let mut fork = merge("opened");
        (fork["iid"], fork["source_project_id"]) = (json!(9), project);
        fork
    };
    let branch = BRANCH.replace('/', "%2F");
    let of = |size: &str| {
        format!("state=all&source_branch={branch}&target_branch=deploy&order_by=created_at&sort=desc&per_page={size}")
    };
    let many: Vec<_> = std::iter::repeat_n(fork(json!(6)), 10).collect();
    let all = format!(
        "per_page=100&state=all&source_branch={branch}&target_branch=deploy&order_by=created_at&sort=desc&page=1"
    );
    let scene = Scene::start(
        ForgeKind::GitLab,
        vec![
            Exchange::get(&path(&format!("merge_requests?{}", of("10"))), &json!([fork(json!(null)), merge("opened")])),
            Exchange::get(&path(&format!("merge_requests?{}", of("10"))), &json!(many)),
            Exchange::get(&path(&format!("merge_requests?{all}")), &json!([fork(json!(6)), merge("opened")])),
            Exchange::get(&path(&format!("merge_requests?{}", of("1"))), &json!([fork(json!(6))])),
            Exchange::get(&path(&format!("merge_requests?{}", of("10"))), &json!([fork(json!(6)), merge("opened")])),
        ],
    )
    .await;
    for _ in 0..2 {
        let found = scene.forge.of_branch("deploy", BRANCH).await.unwrap();
        assert_eq!(found.iter().map(|pull| pull.number).collect::<Vec<_>>(), [7]);
    }
    assert_eq!(scene.forge.find("deploy", BRANCH).await.unwrap().map(|pull| pull.number), Some(7));
    scene.replay.finish();
}

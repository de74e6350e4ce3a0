//! What a forge can do wrong: each is a named error, none shows the token.

use forge::{ForgeAccess, ForgeCredential, ForgeError, Forges};
use git::RepositoryLocation;
use policy::{ForgeKind, ForgePolicy};
use serde_json::json;

use super::{Exchange, Scene};

const PERMISSION: &str = "/api/v1/repos/platform/fleet/collaborators/alice/permission";

/// What one failed answer to a question comes to.
async fn failure(exchange: Exchange) -> ForgeError {
    let scene = Scene::start(ForgeKind::Gitea, vec![exchange]).await;
    let error = scene.forge.permission("alice").await.unwrap_err();
    assert!(!format!("{error} {error:?} {}", error.hint()).contains("CANARY"), "{error:?}");
    assert!(error.to_string().contains("read what alice may do in platform/fleet"), "{error}");
    scene.replay.finish();
    error
}

fn answers(status: u16, message: &str) -> Exchange {
    Exchange::new("GET", PERMISSION, status, &json!({"message": message}))
}

#[tokio::test]
async fn every_refusal_has_a_name() {
    let scope = "token does not have at least one of required scope(s), required=[read:repository], token=CANARY-token";
    let error = failure(answers(403, scope)).await;
    assert!(matches!(&error, ForgeError::Forbidden { message, .. } if message.contains("read:repository")), "{error}");
    assert!(matches!(failure(answers(401, "user does not exist")).await, ForgeError::Unauthorized { .. }));
    assert!(matches!(failure(answers(423, "archived")).await, ForgeError::Refused { status: 423, .. }));
    let moved = answers(301, "Moved").answers_header("location", "https://git.example.com/other/fleet?token=x");
    let error = failure(moved).await;
    assert!(matches!(&error, ForgeError::Moved { to, .. } if to == "https://git.example.com/other/fleet"), "{error}");
    for status in [500, 502, 503] {
        let page = answers(status, "").answers_text("text/html", "<html>CANARY bad gateway</html>");
        assert!(matches!(failure(page).await, ForgeError::Unavailable { .. }));
    }
    let page = answers(200, "").answers_text("text/html", "<!DOCTYPE html><title>Sign in</title>");
    assert!(matches!(failure(page).await, ForgeError::Unintelligible { reason, .. } if reason == "it is a web page"));
    assert!(matches!(failure(answers(200, "no permission here")).await, ForgeError::Unintelligible { .. }));
    let endless = answers(200, "").answers_text("application/json", &" ".repeat(9 << 20));
    assert!(matches!(failure(endless).await, ForgeError::Unavailable { reason, .. } if reason.contains("more than")));
}

#[tokio::test]
async fn a_forge_that_has_had_enough_is_left_alone() {
    for refusal in [
        answers(429, "slow down").answers_header("retry-after", "3000"),
        answers(429, "slow down"),
        answers(403, "You have exceeded a secondary rate limit").answers_header("retry-after", "120"),
        answers(403, "API rate limit exceeded")
            .answers_header("x-ratelimit-remaining", "0")
            .answers_header("x-ratelimit-reset", "99999999999"),
        answers(503, "maintenance").answers_header("retry-after", "Fri, 31 Dec 2055 23:59:59 GMT"),
    ] {
        let scene = Scene::start(ForgeKind::Gitea, vec![refusal]).await;
        for _ in 0..3 {
            let error = scene.forge.permission("alice").await.unwrap_err();
            assert!(matches!(error, ForgeError::Limited { seconds: 50..=3600, .. }), "{error:?}");
        }
        // Of the three, one was asked.
        scene.replay.finish();
    }
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let first = Exchange::get(PERMISSION, &json!({"permission": "write"})).answers_header("etag", "\"1\"");
    let second = Exchange::new("GET", PERMISSION, 304, &json!(null)).header("if-none-match", "\"1\"");
    let scene = Scene::start(ForgeKind::Gitea, vec![first, second]).await;
    let permission = scene.forge.permission("alice").await.unwrap();
    assert_eq!(scene.forge.permission("alice").await, Ok(permission));
    scene.replay.finish();
}

#[tokio::test]
async fn a_token_is_read_anew_each_time_and_never_without_consent() {
    let scene = Scene::start(ForgeKind::Gitea, vec![Exchange::get(PERMISSION, &json!({"permission": "read"}))]).await;
    std::fs::write(&scene.token_file, "two\nlines\n").unwrap();
    assert!(matches!(scene.forge.permission("alice").await, Err(ForgeError::Token { .. })));
    std::fs::remove_file(&scene.token_file).unwrap();
    assert!(matches!(scene.forge.permission("alice").await, Err(ForgeError::Token { .. })));
    std::fs::write(&scene.token_file, "CANARY-token").unwrap();
    scene.forge.permission("alice").await.unwrap();
    scene.replay.finish();

    let url = scene.replay.url.clone();
    let policy = ForgePolicy { kind: ForgeKind::Gitea, url, repository: "platform/fleet".to_owned() };
    let here = |text: &str| text.parse::<RepositoryLocation>().unwrap();
    let get = |access: ForgeAccess, repository: &str| Forges::new(access).get(&policy, &here(repository)).map(drop);
    let credential = Some(ForgeCredential::Token(scene.token_file.clone()));
    let access = |hosts: &[&str]| ForgeAccess {
        credential: credential.clone(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    };
    assert!(matches!(get(ForgeAccess::default(), "."), Err(ForgeError::NoToken(_))));
    assert_eq!(get(access(&[]), "."), Err(ForgeError::Host("127.0.0.1".to_owned())));
    assert_eq!(
        get(access(&["git.example.com"]), "https://other.example.com/x"),
        Err(ForgeError::Host("127.0.0.1".to_owned()))
    );
    assert_eq!(get(access(&[]), "http://127.0.0.1:1/platform/fleet.git"), Ok(()));
    assert_eq!(get(access(&["127.0.0.1"]), "."), Ok(()));
}

#[tokio::test]
async fn a_forge_that_cannot_be_reached_is_named_by_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "CANARY-token").unwrap();
    // Nobody listens there any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/forge");
    let policy = ForgePolicy { kind: ForgeKind::Gitea, url, repository: "platform/fleet".to_owned() };
    let access = ForgeAccess { credential: Some(ForgeCredential::Token(file)), hosts: vec!["127.0.0.1".to_owned()] };
    let forge = Forges::new(access).get(&policy, &".".parse().unwrap()).unwrap();
    let error = forge.permission("alice").await.unwrap_err().to_string();
    assert!(error.contains(&format!(": http://{address} cannot be reached: ")) && !error.contains("CANARY"), "{error}");
}

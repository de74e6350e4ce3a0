//! GitHub Apps: who they say they are, and the tokens they get for it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forge::{ForgeAccess, ForgeCredential, ForgeError, Forges, Permission};
use git::RepositoryLocation;
use jiff::{SignedDuration, Timestamp};
use policy::{ForgeKind, ForgePolicy};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs1KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::{Exchange, Scene};

const INSTALLATION: &str = "/api/v3/repos/platform/fleet/installation";
const TOKENS: &str = "/api/v3/app/installations/42/access_tokens";
const PERMISSION: &str = "/api/v3/repos/platform/fleet/collaborators/alice/permission";

fn key_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/forge/app-key.pem")
}

/// Whether this says, signed with the fixture's key, that it is App 7 for the next minutes.
fn is_claim(token: &str) -> bool {
    let key = PrivatePkcs1KeyDer::from_pem_file(key_file()).unwrap();
    let pair = RsaKeyPair::from_der(key.secret_pkcs1_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref());
    let Some((text, signature)) = token.rsplit_once('.') else { return false };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    let json = |part: &str| serde_json::from_slice::<Value>(&decoded(part)).unwrap_or_default();
    let (header, claims) = text.split_once('.').unwrap_or_default();
    let (claims, now) = (json(claims), Timestamp::now().as_second());
    let at = |name: &str| claims[name].as_i64().unwrap_or_default();
    public.verify(text.as_bytes(), &decoded(signature)).is_ok()
        && json(header) == json!({"alg": "RS256", "typ": "JWT"})
        && claims["iss"] == "7"
        && at("iat") <= now
        && (now..=now + 600).contains(&at("exp"))
}

fn installation() -> Exchange {
    Exchange::get(INSTALLATION, &json!({"id": 42, "app_id": 7})).shows(is_claim)
}

/// A token that lasts this many minutes.
fn token(minutes: i64) -> Exchange {
    let expires_at = Timestamp::now().checked_add(SignedDuration::from_mins(minutes)).unwrap();
    let answer = json!({"token": "CANARY-token", "expires_at": expires_at, "permissions": {"contents": "read"}});
    Exchange::new("POST", TOKENS, 201, &answer).body(json!({"repositories": ["fleet"]})).shows(is_claim)
}

fn permission() -> Exchange {
    Exchange::get(PERMISSION, &json!({"permission": "write"}))
}

async fn start(exchanges: Vec<Exchange>) -> Scene {
    let credential = ForgeCredential::App { id: "7".to_owned(), key_file: key_file() };
    let folder = tempfile::tempdir().unwrap();
    Scene::let_in_by(credential, ForgeKind::GitHub, exchanges, key_file(), folder).await
}

#[tokio::test]
async fn an_app_gets_one_token_for_the_fleet_repository_alone() {
    let scene = start(vec![installation(), token(60), permission(), permission()]).await;
    let (one, other) = tokio::join!(scene.forge.permission("alice"), scene.forge.permission("alice"));
    assert_eq!((one, other), (Ok(Permission::Write), Ok(Permission::Write)));
    scene.replay.finish();
}

#[tokio::test]
async fn a_token_that_ends_soon_or_was_revoked_is_replaced() {
    let revoked = Exchange::new("GET", PERMISSION, 401, &json!({"message": "Bad credentials"}));
    let scene = start(vec![installation(), token(4), permission()]).await;
    scene.forge.permission("alice").await.unwrap();
    scene.replay.finish();
    scene.replay.expect(vec![installation(), token(60), revoked]);
    assert!(matches!(scene.forge.permission("alice").await, Err(ForgeError::Unauthorized { .. })));
    scene.replay.finish();
    scene.replay.expect(vec![installation(), token(60), permission()]);
    scene.forge.permission("alice").await.unwrap();
    scene.replay.finish();
}

#[tokio::test]
async fn an_app_that_is_not_installed_or_not_known_is_named() {
    let refused = |status: u16, message: &str| {
        Exchange::new("GET", INSTALLATION, status, &json!({"message": message})).shows(is_claim)
    };
    let scene = start(vec![refused(404, "Not Found")]).await;
    let error = scene.forge.permission("alice").await.unwrap_err();
    assert_eq!(error.to_string(), "App 7 is not installed on platform/fleet, or may not see it");
    scene.replay.expect(vec![refused(401, "'Expiration time' claim ('exp') is too far in the future")]);
    let error = scene.forge.permission("alice").await.unwrap_err();
    assert!(matches!(error, ForgeError::Unauthorized { .. }) && error.to_string().contains("too far"), "{error}");
    scene.replay.finish();
}

#[tokio::test]
async fn a_file_without_an_rsa_key_is_named_and_nothing_of_it_told() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key.pem");
    let scene = start(Vec::new()).await;
    let pem = |label: &str| format!("-----BEGIN {label}-----\nQ0FOQVJZ\n-----END {label}-----\n");
    for text in
        ["CANARY".to_owned(), pem("RSA PRIVATE KEY"), pem("PRIVATE KEY"), pem("EC PRIVATE KEY"), pem("CERTIFICATE")]
    {
        std::fs::write(&key_file, text).unwrap();
        let credential = ForgeCredential::App { id: "7".to_owned(), key_file: key_file.clone() };
        let access = ForgeAccess { credential: Some(credential), hosts: vec!["127.0.0.1".to_owned()] };
        let policy =
            |kind| ForgePolicy { kind, url: scene.replay.url.clone(), repository: "platform/fleet".to_owned() };
        let here = RepositoryLocation::Local(folder.path().to_owned());
        let error = Forges::new(access.clone())
            .get(&policy(ForgeKind::GitHub), &here)
            .unwrap()
            .permission("alice")
            .await
            .unwrap_err();
        assert!(matches!(&error, ForgeError::Token { file, .. } if *file == key_file), "{error}");
        assert!(!error.to_string().contains("CANARY") && !error.to_string().contains("Q0FO"), "{error}");
        let on_gitea = Forges::new(access).get(&policy(ForgeKind::Gitea), &here).map(drop);
        assert!(matches!(on_gitea, Err(ForgeError::Setup { .. })), "{on_gitea:?}");
    }
    scene.replay.finish();
}

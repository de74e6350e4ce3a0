//! Forges by the documented form of their requests and answers. What Gitea itself does is shown by `tests/tests/controller/forge`.

mod app;
mod faults;
mod github;
mod gitlab;
mod replay;

use std::path::PathBuf;
use std::sync::Arc;

use forge::{Forge, ForgeAccess, ForgeCredential, Forges};
use git::RepositoryLocation;
use policy::{ForgeKind, ForgePolicy};
use tempfile::TempDir;

use replay::{Exchange, Replay};

/// A replaying server, and the forge that Stepgate takes it for.
struct Scene {
    replay: Replay,
    forge: Arc<Forge>,
    token_file: PathBuf,
    _folder: TempDir,
}

impl Scene {
    async fn start(kind: ForgeKind, exchanges: Vec<Exchange>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "CANARY-token\n").unwrap();
        Self::let_in_by(ForgeCredential::Token(token_file.clone()), kind, exchanges, token_file, folder).await
    }

    async fn let_in_by(
        credential: ForgeCredential,
        kind: ForgeKind,
        exchanges: Vec<Exchange>,
        token_file: PathBuf,
        folder: TempDir,
    ) -> Self {
        let replay = Replay::start(exchanges).await;
        let access = ForgeAccess { credential: Some(credential), hosts: vec!["127.0.0.1".to_owned()] };
        let policy = ForgePolicy { kind, url: replay.url.clone(), repository: "platform/fleet".to_owned() };
        let here = RepositoryLocation::Local(folder.path().to_owned());
        let forge = Forges::new(access).get(&policy, &here).unwrap();
        Self { replay, forge, token_file, _folder: folder }
    }
}

const BRANCH: &str = "stepgate/abc/capi";

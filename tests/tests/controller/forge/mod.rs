//! Stages that people approve on a real forge.

mod answers;
mod counted;
mod edited;
mod faults;
mod flow;
mod groups;
mod hub;
mod interleavings;
mod late;
mod page;
mod refusals;
mod rules;
mod secrets;
mod together;
mod updates;

use std::sync::Arc;

use forge::{ForgeAccess, ForgeCredential};
use git::{GitSettings, Repository};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};
use tests::servers::gitea::{OWNER, Permission, REPOSITORY};
use tests::servers::{ForgeProxy, Gitea, Programs};

use crate::fleet::{Fleet, outcome, told};

const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";

/// What the token of Stepgate has to be allowed.
const SCOPES: &[&str] = &["write:repository", "write:issue"];

/// A fleet on Gitea. `stepgate`, `alice` and `bob` may write there, `olga` may only look. Stepgate talks to it through a proxy.
struct Scene {
    gitea: Gitea,
    proxy: ForgeProxy,
    fleet: Fleet,
}

impl Scene {
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        Self::with_policy(programs, "").await
    }

    /// With these lines in `stepgate.yaml`, where Stepgate may ask the forge who may do what.
    async fn administered(programs: &Programs, lines: &str) -> anyhow::Result<Self> {
        let scene = Self::with_policy(programs, lines).await?;
        scene.gitea.permit("stepgate", Permission::Admin).await?;
        Ok(scene)
    }

    /// With these lines in `stepgate.yaml`.
    async fn with_policy(programs: &Programs, lines: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let gitea = Gitea::start(programs, folder.path()).await?;
        let proxy = ForgeProxy::start(gitea.url()).await?;
        for name in ["stepgate", "alice", "bob"] {
            gitea.user(name, Permission::Write).await?;
        }
        gitea.user("olga", Permission::Read).await?;
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, gitea.token("stepgate", SCOPES).await? + "\n")?;
        let settings = GitSettings { cache: folder.path().join("copies"), ..GitSettings::default() };
        let repository = Repository::open_with(&gitea.clone_url("stepgate").parse()?, &settings)?;
        let access = ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: Vec::new() };
        let url = proxy.url();
        // People's merges have the time of this machine, so the fleet's time begins there; it runs ahead, and no gate may time out for that.
        let fleet = Fleet::on(folder, repository, Timestamp::now(), access, |policy| {
            let policy = policy.replace("timeout: 30m", "timeout: 9000h").replace("timeout: 2h", "timeout: 9000h");
            format!(
                "{policy}{lines}approval: stage\nforge: {{kind: gitea, url: '{url}', repository: {OWNER}/{REPOSITORY}}}\n"
            )
        });
        Ok(Self { gitea, proxy, fleet })
    }

    /// A person asks for another priority class: one stage of one cluster.
    fn edit(&self, class: &str) {
        self.fleet.edit(OVERLAY, |text| {
            let line = text.lines().find(|line| line.contains("system-") || line.contains("class-")).unwrap();
            let old = line.split_whitespace().last().unwrap();
            text.replace(old, class)
        });
    }

    async fn pulls(&self, state: &str) -> anyhow::Result<Vec<Value>> {
        let pulls = self.gitea.read(&format!("pulls?state={state}&limit=50")).await?;
        Ok(pulls.as_array().cloned().unwrap_or_default())
    }

    /// The only open pull request, once the controller has come so far.
    async fn the_pull(&self, controller: &Controller) -> anyhow::Result<Value> {
        let pass = self.fleet.run_until(controller, waits_for_people);
        let mut pulls = self.pulls("open").await?;
        assert_eq!(pulls.len(), 1, "{} {pulls:?}", told(&pass));
        Ok(pulls.remove(0))
    }

    async fn act(&self, user: &str, method: Method, path: &str, body: Value) -> anyhow::Result<Value> {
        self.gitea.act(user, method, path, body).await
    }

    async fn say(&self, user: &str, number: u64, text: &str) -> anyhow::Result<Value> {
        self.act(user, Method::POST, &format!("issues/{number}/comments"), json!({"body": text})).await
    }

    /// What Stepgate has to say below a pull request.
    async fn said(&self, number: u64) -> anyhow::Result<Vec<String>> {
        let comments = self.gitea.read(&format!("issues/{number}/comments")).await?;
        let own = comments.as_array().unwrap().iter().filter(|comment| text(&comment["user"], "login") == "stepgate");
        Ok(own.map(|comment| text(comment, "body").to_owned()).collect())
    }

    /// Each status of a commit by its name, and what it says.
    async fn statuses(&self, commit: &str) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.gitea.read(&format!("commits/{commit}/status")).await?;
        let statuses = found["statuses"].as_array().cloned().unwrap_or_default();
        Ok(statuses.iter().map(|it| (text(it, "context").to_owned(), text(it, "status").to_owned())).collect())
    }

    /// A pass of a controller that dies as the proxy says; none when it did.
    async fn pass_or_death(&self, controller: &Controller) -> Option<Arc<ReconcileReport>> {
        let pass = tokio::select! {
            pass = controller.pass() => Some(pass.unwrap()),
            () = self.proxy.died() => None,
        };
        let reading = self.fleet.planner().read().unwrap();
        self.fleet.simulated.follow(&self.fleet.repository, &reading, self.fleet.clock_now()).unwrap();
        pass
    }
}

fn waits_for_people(pass: &ReconcileReport) -> bool {
    pass.clusters.iter().all(|cluster| {
        let message = cluster.outcome.message();
        cluster.outcome == ClusterOutcome::Done
            || message.contains("waits for approval: http")
            || message.contains("comes first")
    })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn number(pull: &Value) -> u64 {
    pull["number"].as_u64().unwrap()
}

fn head(pull: &Value) -> &str {
    text(&pull["head"], "sha")
}

fn message(pass: &ReconcileReport) -> String {
    outcome(pass, "mgmt").message()
}

//! Gitea: a real forge, with users of its own and a repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::servers::port::free_port;
use crate::servers::process::{Process, answers};
use crate::servers::programs::Programs;
use crate::waiting::{PATIENCE, until};

/// The administrator, and everybody's password.
const ADMINISTRATOR: &str = "root-user";
const PASSWORD: &str = "only-for-tests-1";

/// The organisation that the fleet belongs to.
pub const OWNER: &str = "platform";
/// The repository.
pub const REPOSITORY: &str = "fleet";

/// What a user may do in the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// See it.
    Read,
    /// Push and merge.
    Write,
    /// Everything.
    Admin,
}

/// A running Gitea, with an empty repository; it ends when dropped.
pub struct Gitea {
    /// The program.
    pub server: Process,
    folder: PathBuf,
    client: Client,
    port: u16,
}

impl Gitea {
    /// What has to be built for it.
    pub const NEEDED: &'static [&'static str] = &["gitea"];

    /// Starts it with everything it keeps below `folder`, and makes the repository.
    ///
    /// # Errors
    /// When it does not start; with the end of its log.
    pub async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("gitea");
        std::fs::create_dir_all(&folder)?;
        let port = free_port()?;
        let module = programs.module("gitea", "code.gitea.io/gitea")?;
        let configuration = folder.join("app.ini");
        std::fs::write(&configuration, settings(&folder, &module, port))?;
        plain_assets(&folder)?;
        let gitea = |arguments: &[&str]| {
            let mut command = Command::new(programs.path("gitea"));
            command.args(arguments).arg("--config").arg(&configuration).env("HOME", &folder).env("USER", "root");
            command
        };
        let mut server = Process::start(&folder, "gitea", gitea(&["web"]))?;
        server.wait_until(async || answers(port, "/api/healthz").await).await?;
        let user = ["admin", "user", "create", "--admin", "--must-change-password=false", "--username", ADMINISTRATOR];
        let email = format!("{ADMINISTRATOR}@example.com");
        let made = gitea(&[&user[..], &["--password", PASSWORD, "--email", &email]].concat()).output()?;
        if !made.status.success() {
            bail!("gitea admin user create: {}", String::from_utf8_lossy(&made.stderr));
        }
        // Another part of the program may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let gitea = Self { server, folder, client, port };
        gitea.administrate(Method::POST, "orgs", json!({"username": OWNER})).await?;
        gitea.make_repository().await?;
        Ok(gitea)
    }

    async fn make_repository(&self) -> anyhow::Result<()> {
        let repository = json!({"name": REPOSITORY, "default_branch": "main", "auto_init": false});
        self.administrate(Method::POST, &format!("orgs/{OWNER}/repos"), repository).await.map(drop)
    }

    /// The repository is deleted and made anew, empty, and without anybody who may do anything in it.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub async fn renew(&self) -> anyhow::Result<()> {
        self.administrate(Method::DELETE, &format!("repos/{OWNER}/{REPOSITORY}"), Value::Null).await?;
        self.make_repository().await
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that this user clones the repository from, password and all.
    #[must_use]
    pub fn clone_url(&self, user: &str) -> String {
        format!("http://{user}:{PASSWORD}@127.0.0.1:{}/{OWNER}/{REPOSITORY}.git", self.port)
    }

    /// The repository as it lies on the disk, for looking at.
    #[must_use]
    pub fn bare(&self) -> PathBuf {
        self.folder.join("repositories").join(OWNER).join(format!("{REPOSITORY}.git"))
    }

    /// What a program needs to read the repository as this user: address, name and password.
    #[must_use]
    pub fn access<'a>(&self, user: &'a str) -> (String, &'a str, &'static str) {
        (format!("{}/{OWNER}/{REPOSITORY}.git", self.url()), user, PASSWORD)
    }

    /// Makes a user who may do this in the repository.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub async fn user(&self, name: &str, permission: Permission) -> anyhow::Result<()> {
        let user = json!({
            "username": name, "email": format!("{name}@example.com"), "password": PASSWORD, "must_change_password": false,
        });
        self.administrate(Method::POST, "admin/users", user).await?;
        self.permit(name, permission).await
    }

    /// Lets a user do this in the repository, and no more.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub async fn permit(&self, name: &str, permission: Permission) -> anyhow::Result<()> {
        let permission = match permission {
            Permission::Read => "read",
            Permission::Write => "write",
            Permission::Admin => "admin",
        };
        let path = format!("repos/{OWNER}/{REPOSITORY}/collaborators/{name}");
        self.administrate(Method::PUT, &path, json!({"permission": permission})).await.map(drop)
    }

    /// A token of a user with these scopes.
    ///
    /// # Errors
    /// When Gitea refuses.
    pub async fn token(&self, user: &str, scopes: &[&str]) -> anyhow::Result<String> {
        let name = format!("token-{}", scopes.join("-").replace(':', "-"));
        let body = json!({"name": name, "scopes": scopes});
        let made = self.call(user, Method::POST, &format!("users/{user}/tokens"), body).await?;
        Ok(made.get("sha1").and_then(Value::as_str).context("a token without its text")?.to_owned())
    }

    /// What the administrator does.
    ///
    /// # Errors
    /// When Gitea refuses; with its words.
    pub async fn administrate(&self, method: Method, path: &str, body: Value) -> anyhow::Result<Value> {
        self.call(ADMINISTRATOR, method, path, body).await
    }

    /// What a user does in the repository, such as `pulls/1/merge`.
    ///
    /// # Errors
    /// When Gitea refuses; with its words.
    pub async fn act(&self, user: &str, method: Method, path: &str, body: Value) -> anyhow::Result<Value> {
        self.call(user, method, &format!("repos/{OWNER}/{REPOSITORY}/{path}"), body).await
    }

    /// What is there in the repository, as a user sees it.
    ///
    /// # Errors
    /// When Gitea refuses; with its words.
    pub async fn read(&self, path: &str) -> anyhow::Result<Value> {
        self.act(ADMINISTRATOR, Method::GET, path, Value::Null).await
    }

    /// A user merges a pull request: by `merge`, `squash`, `rebase` or `rebase-merge`.
    ///
    /// # Errors
    /// When Gitea refuses; with its words.
    pub async fn merge(&self, user: &str, number: u64, style: &str) -> anyhow::Result<()> {
        let path = format!("pulls/{number}/merge");
        // It looks for conflicts in the background, and refuses to merge until it has.
        let what = format!("Gitea has looked for conflicts in pull request {number}");
        let merged = async || match self.act(user, Method::POST, &path, json!({"Do": style})).await {
            Err(error) if error.to_string().contains("try again later") => Ok(None),
            done => done.map(|_| Some(())),
        };
        until(&what, merged).await
    }

    async fn call(&self, user: &str, method: Method, path: &str, body: Value) -> anyhow::Result<Value> {
        let what = format!("{method} {path} as {user}");
        let mut request = self.client.request(method, format!("{}/api/v1/{path}", self.url()));
        request = request.basic_auth(user, Some(PASSWORD));
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.with_context(|| what.clone())?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("{what}: {status} {text}");
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

/// The module has no built scripts and styles, and a page without them tells every visitor so in a dialogue, which a browser without a window
/// waits for.
fn plain_assets(folder: &Path) -> anyhow::Result<()> {
    // As much of them as makes a page readable.
    let style = ".tw-hidden, .raw-content, .gt-hidden, .hide { display: none } svg { max-width: 16px; max-height: 16px } \
                 table { border-collapse: collapse } td, th { border: 1px solid #888; padding: 2px 6px } body { font-family: sans-serif }\n";
    let assets = folder.join("custom/public/assets");
    for (name, text) in
        [("js/iife.js", ""), ("js/index.js", ""), ("css/index.css", style), ("css/theme-gitea-auto.css", "")]
    {
        let file = assets.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(&assets))?;
        std::fs::write(&file, text)?;
    }
    Ok(())
}

/// Nobody searches this forge, and what every request is asked to prove is cheap to prove.
fn settings(folder: &Path, module: &Path, port: u16) -> String {
    let folder = folder.display();
    let module = module.display();
    format!(
        "\
APP_NAME = Forge
RUN_USER = root
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = {folder}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
STATIC_ROOT_PATH = {module}
APP_DATA_PATH = {folder}/data
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
[repository]
ROOT = {folder}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = only-for-tests
PASSWORD_HASH_ALGO = pbkdf2$1$10
INTERNAL_TOKEN = only-for-tests
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[actions]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = warn
"
    )
}

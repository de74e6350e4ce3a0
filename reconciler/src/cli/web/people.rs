//! Who may read the dashboard, and who acts on it: the operator's word.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cluster::kubernetes::Connection;
use git::Identity;
use host::disk;
use secrecy::SecretString;

use crate::cli::common::error::CommandError;
use crate::dashboard::{AccessSettings, DashboardAccess, OidcSettings};

/// The largest file with a secret, in bytes.
const LARGEST_SECRET: u64 = 4 << 10;

/// Who knows people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum WebAuthentication {
    /// The management cluster: who shows a token for the audience `stepgate` (`TokenReview`), and which of the verbs `view`, `approve`,
    /// `reject`, `hold`, `resume`, `retry` and `rollback` they have on `rollouts.stepgate.dev` (`SubjectAccessReview`).
    Kubernetes,
    /// The issuer that `--web-oidc-issuer` names, and the groups that it puts people into.
    Oidc,
}

/// Who may read the dashboard, and who acts on it.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct PeopleArguments {
    /// File with a token of 32 characters or more that whoever reads the dashboard has to show. Without it only this machine may read.
    #[arg(long, env = "STEPGATE_WEB_TOKEN_FILE", value_name = "FILE")]
    web_token_file: Option<PathBuf>,
    /// Whose token that is, `Name <address>`: whoever shows it acts as this person. Without it they only read.
    #[arg(long, env = "STEPGATE_WEB_TOKEN_PERSON", requires = "web_token_file", value_name = "PERSON")]
    web_token_person: Option<Identity>,
    /// Let everybody read the dashboard who reaches it.
    #[arg(long, env = "STEPGATE_WEB_ANONYMOUS_READ", conflicts_with = "web_token_file")]
    web_anonymous_read: bool,
    /// Who knows the people that read the dashboard, and act on it.
    #[arg(
        long,
        env = "STEPGATE_WEB_AUTHENTICATION",
        value_enum,
        conflicts_with_all = ["web_token_file", "web_anonymous_read"],
        value_name = "BY"
    )]
    web_authentication: Option<WebAuthentication>,
    /// File with a key of 32 characters or more that sessions are sealed with: replicas that share it share sessions, which outlast the
    /// process then.
    #[arg(long, env = "STEPGATE_WEB_SESSION_KEY_FILE", value_name = "FILE")]
    web_session_key_file: Option<PathBuf>,
    #[command(flatten)]
    oidc: OidcArguments,
}

/// The issuer, and what its groups may do.
#[derive(Clone, Debug, Args)]
struct OidcArguments {
    /// The issuer of identities, as its tokens have it.
    #[arg(long, env = "STEPGATE_WEB_OIDC_ISSUER", requires = "web_oidc_client", value_name = "URL")]
    web_oidc_issuer: Option<String>,
    /// What the dashboard is called there. It is sent back to `/login/return`.
    #[arg(long, env = "STEPGATE_WEB_OIDC_CLIENT", requires = "web_oidc_address", value_name = "ID")]
    web_oidc_client: Option<String>,
    /// File with the secret that proves it; a public client has none.
    #[arg(long, env = "STEPGATE_WEB_OIDC_SECRET_FILE", value_name = "FILE")]
    web_oidc_secret_file: Option<PathBuf>,
    /// The dashboard's own address, as browsers have it.
    #[arg(long, env = "STEPGATE_WEB_OIDC_ADDRESS", value_name = "URL")]
    web_oidc_address: Option<String>,
    /// What the issuer is asked for.
    #[arg(long, env = "STEPGATE_WEB_OIDC_SCOPE", default_value = "openid email profile", value_name = "SCOPE")]
    web_oidc_scope: String,
    /// The claim that lists somebody's groups.
    #[arg(long, env = "STEPGATE_WEB_OIDC_GROUPS", default_value = "groups", value_name = "CLAIM")]
    web_oidc_groups: String,
    /// A group that may read; everybody may whom the issuer knows, where none is named. May be given several times.
    #[arg(long = "web-oidc-viewer", env = "STEPGATE_WEB_OIDC_VIEWERS", value_delimiter = ',', value_name = "GROUP")]
    web_oidc_viewers: Vec<String>,
    /// A group that may hold, resume and retry. May be given several times.
    #[arg(
        long = "web-oidc-operator",
        env = "STEPGATE_WEB_OIDC_OPERATORS",
        value_delimiter = ',',
        value_name = "GROUP"
    )]
    web_oidc_operators: Vec<String>,
    /// A group that may approve, reject and roll back. May be given several times.
    #[arg(
        long = "web-oidc-approver",
        env = "STEPGATE_WEB_OIDC_APPROVERS",
        value_delimiter = ',',
        value_name = "GROUP"
    )]
    web_oidc_approvers: Vec<String>,
}

impl PeopleArguments {
    /// Whether the management cluster knows people.
    pub(in crate::cli) fn reviews_tokens(&self) -> bool {
        self.web_authentication == Some(WebAuthentication::Kubernetes)
    }

    /// Who may read at that address. `reviewed` is the management cluster that knows people, where it does, and the namespace of its
    /// `Rollout` objects.
    ///
    /// # Errors
    /// When nobody has said who may read there, or a secret cannot be used.
    pub(in crate::cli) fn access(
        &self,
        address: SocketAddr,
        reviewed: Option<(Connection, &str)>,
    ) -> Result<DashboardAccess, CommandError> {
        let settings = AccessSettings {
            token: self.web_token_file.as_deref(),
            person: self.web_token_person.clone(),
            anonymous: self.web_anonymous_read,
            session_key: self.web_session_key_file.as_deref(),
            reviewed: reviewed.filter(|_| self.reviews_tokens()),
            issuer: (self.web_authentication == Some(WebAuthentication::Oidc)).then(|| self.oidc.read()).transpose()?,
        };
        DashboardAccess::at(address, settings).map_err(|error| {
            let hint = error.hint();
            CommandError::new(error.to_string()).hint(hint)
        })
    }
}

impl OidcArguments {
    fn read(&self) -> Result<OidcSettings, CommandError> {
        let (issuer, client, address) = (&self.web_oidc_issuer, &self.web_oidc_client, &self.web_oidc_address);
        let (Some(issuer), Some(client), Some(address)) = (issuer, client, address) else {
            return Err(CommandError::new("nobody has said which issuer knows people")
                .hint("name it by --web-oidc-issuer, --web-oidc-client and --web-oidc-address"));
        };
        Ok(OidcSettings {
            issuer: issuer.clone(),
            client: client.clone(),
            secret: self.web_oidc_secret_file.as_deref().map(secret).transpose()?,
            address: address.clone(),
            scope: self.web_oidc_scope.clone(),
            groups: self.web_oidc_groups.clone(),
            viewers: self.web_oidc_viewers.clone(),
            operators: self.web_oidc_operators.clone(),
            approvers: self.web_oidc_approvers.clone(),
        })
    }
}

fn secret(file: &Path) -> Result<SecretString, CommandError> {
    let text = disk::read_text(file, LARGEST_SECRET)
        .map_err(|error| CommandError::from(error).context(format!("reading the secret {}", file.display())))?;
    Ok(SecretString::from(text.trim()))
}

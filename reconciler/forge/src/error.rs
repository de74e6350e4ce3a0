//! What goes wrong with a forge.

use std::path::PathBuf;

/// Why a forge did not do what was asked. No variant holds a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// Nobody gave Stepgate a token.
    #[error("there is no token for {0}")]
    NoToken(String),
    /// The token cannot be read.
    #[error("could not read the token for the forge from {file}: {reason}")]
    Token {
        /// Its file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Whoever runs Stepgate did not say that this host may see the token.
    #[error("the token is not sent to {0}, which stepgate.yaml names as the forge")]
    Host(String),
    /// The client cannot be set up.
    #[error("could not set up the connection to {url}: {reason}")]
    Setup {
        /// The forge.
        url: String,
        /// Why.
        reason: String,
    },
    /// It does not answer, or says that it cannot at the moment.
    #[error("could not {action}: {reason}")]
    Unavailable {
        /// What was attempted.
        action: String,
        /// Why.
        reason: String,
    },
    /// It has had enough requests for now.
    #[error("could not {action}: the forge takes no more requests for {seconds} s")]
    Limited {
        /// What was attempted.
        action: String,
        /// For how long.
        seconds: u64,
    },
    /// The token is not accepted.
    #[error("could not {action}: the forge does not accept the token (401 {message})")]
    Unauthorized {
        /// What was attempted.
        action: String,
        /// In the forge's words.
        message: String,
    },
    /// The token is accepted and may not do this.
    #[error("could not {action}: the token may not (403 {message})")]
    Forbidden {
        /// What was attempted.
        action: String,
        /// In the forge's words: often the missing scope.
        message: String,
    },
    /// The App has no access to the repository.
    #[error("App {id} is not installed on {repository}, or may not see it")]
    NotInstalled {
        /// The App.
        id: String,
        /// The fleet repository.
        repository: String,
    },
    /// The repository is not there, or the token does not see it.
    #[error("could not {action}: there is no such repository, or the token does not see it")]
    NotFound {
        /// What was attempted.
        action: String,
    },
    /// It is somewhere else now.
    #[error("could not {action}: the repository has moved to {to}")]
    Moved {
        /// What was attempted.
        action: String,
        /// Where to.
        to: String,
    },
    /// It understood and refused.
    #[error("could not {action}: the forge refused ({status} {message})")]
    Refused {
        /// What was attempted.
        action: String,
        /// HTTP status.
        status: u16,
        /// In the forge's words.
        message: String,
    },
    /// It answered something that is none of its forms.
    #[error("could not {action}: the answer is not what a forge says ({reason})")]
    Unintelligible {
        /// What was attempted.
        action: String,
        /// Why.
        reason: String,
    },
}

impl ForgeError {
    /// What helps.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoToken(_) => {
                "name its file with --forge-token-file (STEPGATE_FORGE_TOKEN_FILE), or a GitHub App with --forge-app-id and --forge-app-key-file"
            }
            Self::Token { .. } => "look at the file and who may read it",
            Self::Host(_) => "if it may see the token, name it with --forge-host (STEPGATE_FORGE_HOSTS)",
            Self::Setup { .. } => "look at forge.url in stepgate.yaml",
            Self::Unavailable { .. } => "nothing is lost: it is asked again; merging the branch by git works meanwhile",
            Self::Limited { .. } => "nothing is lost: it is asked again then",
            Self::Unauthorized { .. } => "make another token: this one is wrong, expired or revoked",
            Self::Forbidden { .. } => {
                "give the token the scopes that the forge names: repository and issues, to read and write; and its user write permission"
            }
            Self::NotInstalled { .. } => {
                "install the App on the repository, in its settings on GitHub; look at --forge-app-id"
            }
            Self::NotFound { .. } => "look at forge.repository in stepgate.yaml, and at what the token's user may see",
            Self::Moved { .. } => "change forge.url and forge.repository in stepgate.yaml",
            Self::Refused { .. } => "look at the repository's settings: archived, pull requests off, or a rule",
            Self::Unintelligible { .. } => {
                "look at forge.kind and forge.url in stepgate.yaml, and at what stands before the forge"
            }
        }
    }
}

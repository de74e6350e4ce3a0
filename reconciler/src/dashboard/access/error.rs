//! Why nobody may be let in so, and why somebody is not.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Why nobody may be let in so.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Others than this machine reach the address, and nobody has said who may read there.
    #[error("{0} is reached by others than this machine, and nobody has said who may read the dashboard there")]
    Open(SocketAddr),
    /// A file with a secret cannot be read.
    #[error("reading the secret {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A secret can be guessed.
    #[error("the secret in {0} is shorter than 32 characters")]
    Short(PathBuf),
    /// No issuer can be asked.
    #[error("no issuer can be asked: {0}")]
    Issuer(String),
    /// There are no random numbers.
    #[error("this machine gives no random numbers")]
    Random,
}

impl AccessError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Open(_) => {
                "name a file with a token by --web-token-file, ask people by --web-authentication, or let everybody read by \
                 --web-anonymous-read"
            }
            Self::Unreadable { .. } => "name a file that this process may read",
            Self::Short(_) => "make one with `openssl rand -hex 32`",
            Self::Issuer(_) => "see that this machine has root certificates",
            Self::Random => "start the process again",
        }
    }
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::dashboard) enum Refusal {
    /// Nobody knows them.
    Unknown,
    /// They are known, and may not.
    Denied(String),
    /// Whoever knows people does not answer.
    Unasked,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Unknown => {
                let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
                let told = "show the dashboard's token as `Authorization: Bearer`, or log in\n";
                (StatusCode::UNAUTHORIZED, challenge, told).into_response()
            }
            Self::Denied(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
            Self::Unasked => {
                let told = "whoever knows who you are does not answer; see Stepgate's log\n";
                (StatusCode::SERVICE_UNAVAILABLE, told).into_response()
            }
        }
    }
}

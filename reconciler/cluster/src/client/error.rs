//! Why a request to a Kubernetes API server did not succeed.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use kube::core::Status;

/// A request that did not succeed. Every form says what was attempted on which server, and what helps.
///
/// An object that is not there is no error: reads answer `None` for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server answered 401: the credentials are wrong or have expired.
    #[error(
        "could not {attempt} on {server}: credentials refused ({message}); renew the kubeconfig or the service account's token"
    )]
    Unauthorized {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The server's words.
        message: String,
    },
    /// The server answered 403: a role lacks a verb.
    #[error("could not {attempt} on {server}: forbidden ({message}); grant that verb to stepgate's ClusterRole")]
    Forbidden {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The server's words.
        message: String,
    },
    /// Another writer owns fields that an apply would change, or the object came, changed or went in between (409).
    #[error("could not {attempt} on {server}: {}", in_conflict(message, fields))]
    Conflict {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The server's words.
        message: String,
        /// Fields that others own, where the server names them.
        fields: Vec<FieldConflict>,
    },
    /// The server refused the object: validation or an admission webhook (400, 422 and other codes of the client's side).
    #[error("could not {attempt} on {server}: refused with {code} ({message})")]
    Refused {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The server is there and does not serve now (429 and 5xx).
    #[error("could not {attempt} on {server}: the server answered {code} ({message})")]
    Unavailable {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// No answer in time.
    #[error("could not {attempt} on {server}: no answer within {}", seconds(after))]
    TimedOut {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// No connection, or one that broke.
    #[error("could not {attempt} on {server}: {message}")]
    Connection {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// What the network said.
        message: String,
    },
    /// An answer that is no Kubernetes object.
    #[error("could not {attempt} on {server}: the answer is no Kubernetes object ({message})")]
    Malformed {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// What the parser said; never the answer itself, which may be a Secret.
        message: String,
    },
    /// Another process may lead by now.
    #[error("could not {attempt} on {server}: this process does not lead, or no longer, and writes nothing")]
    NotLeading {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
    },
    /// A list that is longer, or an answer that is larger, than what is read: what is missing of it is not known.
    #[error(
        "could not {attempt} on {server}: there is more of it than {limit}, and a part of it says nothing of the rest"
    )]
    TooLong {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// What is read at most.
        limit: String,
    },
    /// The server does not serve this kind.
    #[error("could not {attempt} on {server}: {kind} is not served there; install its definition first")]
    NotServed {
        /// What was attempted.
        attempt: String,
        /// The server's address.
        server: String,
        /// The kind and its group.
        kind: String,
    },
}

/// A field that an apply would change and another writer owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// The other field manager, such as `kubectl-edit`.
    pub manager: String,
    /// Path of the field, such as `.spec.replicas`.
    pub field: String,
}

impl fmt::Display for FieldConflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is owned by {}", self.field, self.manager)
    }
}

impl FieldConflict {
    /// The conflicts in an answer. A cause's message is `conflict with "MANAGER" using VERSION`, at times with a time after it.
    fn of(status: &Status) -> Vec<Self> {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let conflicts = causes.filter(|cause| cause.reason == "FieldManagerConflict");
        let manager = |message: &str| message.split('"').nth(1).unwrap_or(message).to_owned();
        conflicts.map(|cause| Self { manager: manager(&cause.message), field: cause.field.clone() }).collect()
    }
}

fn in_conflict(message: &str, fields: &[FieldConflict]) -> String {
    // Of an apply the message says so as well, where the owners are not named apart.
    let is_of_owners = !fields.is_empty() || message.starts_with("Apply failed with");
    if !is_of_owners {
        return format!("conflict ({message}); somebody was faster, perhaps another process of stepgate: try again");
    }
    let owned = fields.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let owned = if owned.is_empty() { message.to_owned() } else { owned };
    format!("conflict ({owned}); stop the other writer or hand its fields over, stepgate does not force")
}

impl RequestError {
    /// Whether the object, or its kind, is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Refused { code: 404, .. } | Self::NotServed { .. } => true,
            // So Cluster API's servers in memory say that a kind is not served.
            Self::Unavailable { code: 500, message, .. } => message.contains("APIResourceList"),
            _ => false,
        }
    }

    /// Whether the object came, changed or went in between.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Whether nothing at all can be learned from this server now: it does not answer, or not to us.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unauthorized { .. } | Self::TimedOut { .. } | Self::Connection { .. })
    }

    /// The error of a request that was answered with an error, or not at all.
    pub(crate) fn new(attempt: &str, server: &str, error: &kube::Error) -> Self {
        let (attempt, server) = (attempt.to_owned(), server.to_owned());
        match error {
            kube::Error::Api(status) => {
                let (code, message) = (status.code, shortened(&not_ready(&status.message)));
                match code {
                    401 => Self::Unauthorized { attempt, server, message },
                    403 => Self::Forbidden { attempt, server, message },
                    409 => Self::Conflict { attempt, server, message, fields: FieldConflict::of(status) },
                    429 | 500..=599 => Self::Unavailable { attempt, server, code, message },
                    _ => Self::Refused { attempt, server, code, message },
                }
            }
            kube::Error::Auth(error) => Self::Unauthorized { attempt, server, message: root_cause(error) },
            kube::Error::SerdeError(error) => Self::Malformed { attempt, server, message: error.classify_text() },
            other => Self::Connection { attempt, server, message: root_cause(other) },
        }
    }

    /// The error of an answer that could not be understood.
    pub(crate) fn malformed(attempt: &str, server: &str, error: &serde_json::Error) -> Self {
        Self::Malformed { attempt: attempt.to_owned(), server: server.to_owned(), message: error.classify_text() }
    }
}

trait ClassifyText {
    fn classify_text(&self) -> String;
}

impl ClassifyText for serde_json::Error {
    /// Where and how parsing failed, without the text that was parsed: the parser quotes values in its message.
    fn classify_text(&self) -> String {
        let what = match self.classify() {
            serde_json::error::Category::Io => "reading failed",
            serde_json::error::Category::Syntax => "not JSON",
            serde_json::error::Category::Data => "a field has an unexpected type",
            serde_json::error::Category::Eof => "cut off",
        };
        format!("{what} at line {} column {}", self.line(), self.column())
    }
}

/// The innermost cause: the outer layers of an HTTP client only say that a request failed.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    shortened(&cause.to_string())
}

/// Of what `/readyz` tells, a line for each of some forty checks, those that have failed; any other text as it is.
fn not_ready(message: &str) -> Cow<'_, str> {
    let failed: Vec<&str> = message.lines().filter(|line| line.starts_with("[-]")).collect();
    if failed.is_empty() { Cow::Borrowed(message) } else { Cow::Owned(format!("not ready: {}", failed.join(", "))) }
}

/// At most 500 characters on one line: a proxy may answer with a page.
fn shortened(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(500) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None if line.is_empty() => String::from("no reason given"),
        None => line,
    }
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, message: &str) -> String {
        let status = Status::failure(message, "Reason").with_code(code);
        RequestError::new("list nodes", "https://example:6443", &kube::Error::Api(status.boxed())).to_string()
    }

    #[test]
    fn answers_are_told_apart_by_their_code() {
        for (code, expected) in [
            (401, "credentials refused"),
            (403, "grant that verb"),
            (409, "conflict"),
            (422, "refused with 422"),
            (429, "answered 429"),
            (500, "answered 500"),
            (503, "answered 503"),
        ] {
            let text = answered(code, "why");
            assert!(text.contains(expected) && text.contains("why") && text.contains("list nodes"), "{code}: {text}");
        }
    }

    #[test]
    fn nobody_is_told_to_stop_a_writer_where_somebody_was_only_faster() {
        let text = answered(409, "events \"prod.17\" already exists");
        assert!(text.contains("already exists") && text.contains("try again") && !text.contains("stop"), "{text}");
    }

    #[test]
    fn a_page_of_a_proxy_becomes_one_short_line() {
        let text = answered(502, &format!("<html>\n{}</html>", "x ".repeat(5000)));
        assert!(text.len() < 700 && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_malformed_answer_is_not_quoted() {
        let error = serde_json::from_str::<bool>("\"hunter2\"").unwrap_err();
        let text = RequestError::malformed("get the Secret a/b", "https://example", &error).to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
}

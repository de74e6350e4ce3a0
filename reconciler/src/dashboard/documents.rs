//! Every page of a snapshot as a document: what whoever asks for help sends along.

use serde::Serialize;

use super::detail::Detail;
use super::snapshot::Snapshot;

/// A page, as its `.json` has it, or why it could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its path, such as `clusters/prod/plan.json`.
    pub path: String,
    /// The text.
    pub text: String,
}

/// A page that could not be read: the others are there all the same.
#[derive(Serialize)]
struct Unread {
    error: String,
}

impl Document {
    fn of(path: String, report: Detail<impl Serialize>) -> Self {
        let text = match report {
            Ok(report) => serde_json::to_string_pretty(&report),
            Err(error) => serde_json::to_string_pretty(&Unread { error: error.to_string() }),
        };
        let text = text.unwrap_or_else(|error| format!("it is no JSON: {error}"));
        Self { path, text: format!("{text}\n") }
    }
}

impl Snapshot {
    /// All of them, but for the content of files.
    #[must_use]
    pub fn documents(&self) -> Vec<Document> {
        let mut documents = vec![
            Document::of("about.json".to_owned(), self.about()),
            Document::of("fleet.json".to_owned(), Ok(self)),
            Document::of("problems.json".to_owned(), self.problems()),
            Document::of("approvals.json".to_owned(), self.approvals()),
            Document::of("windows.json".to_owned(), self.windows()),
        ];
        for cluster in self.clusters.iter().map(|row| row.status.cluster.as_str()) {
            let path = |page: &str| format!("clusters/{cluster}/{page}.json");
            documents.extend([
                Document::of(path("why"), self.cluster(cluster)),
                Document::of(path("plan"), self.plan(cluster)),
                Document::of(path("history"), self.commits(cluster)),
            ]);
        }
        documents
    }
}

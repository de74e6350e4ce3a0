//! What was found, as a document and as tables.

use rollout::check::{ApiFinding, ApiStanding};
use serde::Serialize;

use crate::cli::common::exit::Exit;
use crate::cli::common::output::{Report, Table};

/// What is written for API versions that do not stay.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiReport {
    /// The version of Kubernetes that is gone to.
    pub target: String,
    /// How many objects were looked at; null of a running cluster, where the API server counts them.
    pub objects: Option<usize>,
    /// What was found, what is worst first.
    pub uses: Vec<ApiUseReport>,
    /// What could not be read, and why.
    pub unread: Vec<UnreadReport>,
}

/// One use of an API version that does not stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiUseReport {
    /// `removed`: not served at the target. `off`: neither before, unless somebody asked for it. `unknown`: it depends on the version of its
    /// component, which nobody named. `suspected`: written or asked for so once. `deprecated`: served at the target, and no more later.
    pub standing: String,
    /// Group and version.
    pub api_version: String,
    /// Kind; null where a running cluster tells no single one.
    pub kind: Option<String>,
    /// The object that uses it, as `Kind namespace/name`; null where no single one is known.
    pub object: Option<String>,
    /// The file; null of a running cluster.
    pub path: Option<String>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// What happens to it.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadReport {
    /// The file, or what of the cluster.
    pub what: String,
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// Why.
    pub reason: String,
}

impl ApiUseReport {
    /// What stands in no file.
    pub fn of_cluster(
        standing: &str,
        api_version: String,
        object: Option<String>,
        message: String,
        advice: String,
    ) -> Self {
        let standing = standing.to_owned();
        Self { standing, api_version, kind: None, object, path: None, line: None, column: None, message, advice }
    }

    /// What a manifest uses.
    pub fn of_manifest(path: &str, used: planning::apis::used::UsedApi, finding: ApiFinding) -> Self {
        let field = used.field.map(|field| format!("in {field} "));
        Self {
            standing: finding.standing.as_str().to_owned(),
            api_version: used.api_version,
            kind: Some(used.kind),
            object: Some(used.object),
            path: Some(path.to_owned()),
            line: Some(used.line),
            column: Some(used.column),
            message: field.unwrap_or_default() + &finding.message,
            advice: finding.advice,
        }
    }

    /// Whether it is not served at the target.
    pub fn is_removed(&self) -> bool {
        self.standing == ApiStanding::Removed.as_str()
    }

    fn place(&self) -> String {
        match (&self.path, self.line, self.column) {
            (Some(path), Some(line), Some(column)) => format!("{path}:{line}:{column}"),
            (Some(path), _, _) => path.clone(),
            (None, _, _) => "-".to_owned(),
        }
    }

    fn rank(&self) -> usize {
        let order = ["removed", "off", "suspected", "unknown"];
        order.iter().position(|standing| *standing == self.standing).unwrap_or(order.len())
    }
}

impl ApiReport {
    /// What was found, in order.
    pub fn new(target: u32, objects: Option<usize>, mut uses: Vec<ApiUseReport>, unread: Vec<UnreadReport>) -> Self {
        uses.sort_by_key(|found| (found.rank(), found.path.clone(), found.line, found.object.clone()));
        uses.dedup();
        Self { target: format!("1.{target}"), objects, uses, unread }
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        if self.uses.iter().any(ApiUseReport::is_removed) {
            Exit::Blocked
        } else if !self.unread.is_empty() {
            Exit::Waiting
        } else {
            Exit::Success
        }
    }
}

impl Report for ApiReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut table = Table { headers: vec!["STANDING", "WHERE", "API", "OBJECT"], ..Table::default() };
        for found in &self.uses {
            let object = found.object.clone().unwrap_or_else(|| "-".to_owned());
            table.rows.push(vec![found.standing.clone(), found.place(), found.api_version.clone(), object]);
        }
        // One line for all uses of one API version: what to do is the same.
        let mut told: Vec<String> = Vec::new();
        for found in &self.uses {
            let line = match &found.kind {
                Some(kind) => format!("{} {kind} {}; {}", found.api_version, found.message, found.advice),
                // Its message names version and advice.
                None => {
                    let object = found.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
                    object + &found.message
                }
            };
            if !told.contains(&line) {
                told.push(line);
            }
        }
        table.notes.extend(told);
        table.notes.extend(self.unread.iter().map(|unread| {
            let place = unread.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("could not be read: {}{place}: {}", unread.what, unread.reason)
        }));
        let removed = self.uses.iter().filter(|found| found.is_removed()).count();
        let objects = self.objects.map(|objects| format!("{objects} objects, ")).unwrap_or_default();
        table.notes.push(format!(
            "{objects}{removed} not served at Kubernetes {}, {} other remarks, {} not read",
            self.target,
            self.uses.len() - removed,
            self.unread.len()
        ));
        vec![(None, table)]
    }
}

//! The report as SARIF 2.1.0 (OASIS), which forges show beside the lines of a change.

use serde_json::{Value, json};

use super::report::{ApiReport, ApiUseReport};
use crate::cli::common::error::CommandError;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The rules: one a standing, with what it means.
const RULES: [(&str, &str); 5] = [
    ("removed", "The API version is not served at the target."),
    ("off", "The API version is not served at the target, and was served before only where somebody asked for it."),
    ("suspected", "The API version was used once, by somebody who may have moved on."),
    ("unknown", "Whether the API version is served depends on a version that nobody named."),
    ("deprecated", "The API version is served at the target, and no more by a later one."),
];

/// The document.
pub fn text(report: &ApiReport) -> Result<String, CommandError> {
    let rule = |(name, text): (&str, &str)| json!({"id": name, "shortDescription": {"text": text}});
    let unread = report.unread.iter().map(|unread| {
        let text = format!("{} could not be read: {}", unread.what, unread.reason);
        json!({"level": "warning", "message": {"text": text}, "locations": [place(&unread.what, unread.line, None)]})
    });
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "stepgate", "version": env!("CARGO_PKG_VERSION"), "rules": RULES.map(rule)}},
            "results": report.uses.iter().map(result).collect::<Vec<_>>(),
            "invocations": [{
                "executionSuccessful": report.unread.is_empty(),
                "toolExecutionNotifications": unread.collect::<Vec<_>>(),
            }],
        }],
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn result(found: &ApiUseReport) -> Value {
    let level = match found.standing.as_str() {
        "removed" => "error",
        "deprecated" => "note",
        _ => "warning",
    };
    let subject = found.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    let text = match found.kind {
        Some(_) => format!("{subject}{} {}; {}", found.api_version, found.message, found.advice),
        None => format!("{subject}{}", found.message),
    };
    let locations: Vec<Value> = found.path.iter().map(|path| place(path, found.line, found.column)).collect();
    json!({"ruleId": found.standing, "level": level, "message": {"text": text}, "locations": locations})
}

fn place(path: &str, line: Option<usize>, column: Option<usize>) -> Value {
    let artifact = json!({"uri": uri(path)});
    match (line, column) {
        (Some(line), Some(column)) => {
            let region = json!({"startLine": line, "startColumn": column});
            json!({"physicalLocation": {"artifactLocation": artifact, "region": region}})
        }
        (Some(line), None) => {
            json!({"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}})
        }
        (None, _) => json!({"physicalLocation": {"artifactLocation": artifact}}),
    }
}

/// A path as a relative reference (RFC 3986): everything but what may stand there is escaped.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let path = path.strip_prefix("./").unwrap_or(path);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

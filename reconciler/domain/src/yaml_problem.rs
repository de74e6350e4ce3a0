//! From errors of the YAML reader to problems of the fleet.

use yaml::{YamlError, YamlErrorKind};

use crate::{Problem, ProblemCode, RepoPath};

/// The code of a problem for a kind of error.
pub fn yaml_problem_code(kind: YamlErrorKind) -> ProblemCode {
    match kind {
        YamlErrorKind::Encoding => ProblemCode::NotText,
        YamlErrorKind::DuplicateKey => ProblemCode::DuplicateKey,
        YamlErrorKind::Syntax
        | YamlErrorKind::KeyType
        | YamlErrorKind::Value
        | YamlErrorKind::Alias
        | YamlErrorKind::Limit => ProblemCode::BadYaml,
    }
}

/// The problem for `error` in `path`, with advice.
pub fn yaml_problem(path: &RepoPath, error: &YamlError) -> Problem {
    let hint = match error.kind {
        YamlErrorKind::Encoding => "store it as UTF-8 text, or move it out of the folders that are read",
        YamlErrorKind::Syntax => "correct the YAML at this place; where the file ends there, it was cut off",
        YamlErrorKind::DuplicateKey => "remove one of the two",
        YamlErrorKind::KeyType => "write the key as text, in quotes",
        YamlErrorKind::Value => "write the value in the form that its tag asks for",
        YamlErrorKind::Alias => "every *alias needs an &anchor before it",
        YamlErrorKind::Limit => "no real manifest is that deep or repeats its anchors that often; split the file",
    };
    let problem = Problem::new(yaml_problem_code(error.kind), error.message.clone()).path(path).hint(hint);
    if error.line > 0 { problem.at(error.line, error.column) } else { problem }
}

//! Variables of provider manifests: `${VAR}`, `${VAR:=default}` and the other forms that clusterctl understands.
//!
//! The rules are clusterctl's (`cmd/clusterctl/client/yamlprocessor` of `kubernetes-sigs/cluster-api`, which uses
//! `drone/envsubst`), so that a manifest means here what it means there:
//! - only `${…}` is a variable; a bare `$VAR` is text; `$$` is one `$` and keeps a following `{…}` from being read;
//! - `=`, `:=`, `:-`, `:?` and `:+` all mean the same: what follows is used when the variable is unset **or empty**,
//!   and may hold variables itself;
//! - white space inside the braces is dropped, as in `${ VAR }`;
//! - a variable without a value whose **first** occurrence has no default (or an empty one, `${VAR:=}`) is missing, and
//!   that is an error for the whole manifest.
//!
//! Only provider manifests are substituted. Flux's custom resource definitions hold `${var:=default}` as text.

mod parse;

use std::collections::{BTreeMap, BTreeSet};

use parse::{Part, Reference};

/// Why the variables of a manifest could not be replaced. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// Variables without value and default.
    #[error("no value for {}", list(.0))]
    Missing(Vec<MissingVariable>),
    /// A `${…}` that clusterctl cannot read either.
    #[error("line {line}, column {column}: {message}")]
    Malformed {
        /// Where the `${` stands.
        line: usize,
        /// Where in the line.
        column: usize,
        /// What is wrong with it.
        message: String,
    },
}

/// A variable that needs a value from `stepgate.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct MissingVariable {
    /// Its name.
    pub name: String,
    /// The line of its first occurrence, from 1.
    pub line: usize,
}

fn list(missing: &[MissingVariable]) -> String {
    let mut text = String::new();
    for (index, variable) in missing.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(&format!("${{{}}} (line {})", variable.name, variable.line));
    }
    text
}

/// One variable of a manifest, as it stands at its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Line of the first occurrence, from 1.
    pub line: usize,
    /// The default as written; `None` when a value is required.
    pub default: Option<String>,
}

/// A default that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct ChangedDefault {
    /// The variable.
    pub name: String,
    /// The old default; `None` where a value was required.
    pub old: Option<String>,
    /// The new default; `None` where a value is required now.
    pub new: Option<String>,
}

/// The variables of `source` in order of their first occurrence.
///
/// # Errors
/// [`VariableError::Malformed`] for a `${…}` that cannot be read.
pub fn variables(source: &str) -> Result<Vec<Variable>, VariableError> {
    let source = parse::drop_white_space(source);
    let mut seen = BTreeSet::new();
    let mut variables = Vec::new();
    for part in parse::parse(&source)? {
        if let Part::Reference(reference) = part
            && seen.insert(reference.name.clone())
        {
            variables.push(Variable {
                default: reference.has_default().then(|| reference.default_text()),
                line: reference.line,
                name: reference.name,
            });
        }
    }
    Ok(variables)
}

/// `source` with every variable replaced by its value in `values`, its default or, when it is there and empty without a
/// default, by nothing.
///
/// # Errors
/// [`VariableError`] when a value is missing or a `${…}` cannot be read; nothing is replaced then.
pub fn substitute(source: &str, values: &BTreeMap<String, String>) -> Result<String, VariableError> {
    let source = parse::drop_white_space(source);
    let parts = parse::parse(&source)?;
    let mut seen = BTreeSet::new();
    let mut missing = Vec::new();
    for part in &parts {
        if let Part::Reference(reference) = part
            && seen.insert(reference.name.as_str())
            && !values.contains_key(&reference.name)
            && !reference.has_default()
        {
            missing.push(MissingVariable { name: reference.name.clone(), line: reference.line });
        }
    }
    if !missing.is_empty() {
        missing.sort();
        return Err(VariableError::Missing(missing));
    }
    let mut text = String::with_capacity(source.len());
    for part in &parts {
        part.expand(values, &mut text);
    }
    Ok(text)
}

/// The variables that both manifests have and whose defaults differ, by name: a change of behaviour without a change of
/// version.
///
/// # Errors
/// [`VariableError::Malformed`] for a `${…}` that cannot be read.
pub fn changed_defaults(old: &str, new: &str) -> Result<Vec<ChangedDefault>, VariableError> {
    let old: BTreeMap<String, Option<String>> =
        variables(old)?.into_iter().map(|variable| (variable.name, variable.default)).collect();
    let mut changed: Vec<ChangedDefault> = variables(new)?
        .into_iter()
        .filter_map(|variable| {
            let before = old.get(&variable.name)?;
            (*before != variable.default).then(|| ChangedDefault {
                name: variable.name,
                old: before.clone(),
                new: variable.default,
            })
        })
        .collect();
    changed.sort();
    Ok(changed)
}

impl Part {
    fn expand(&self, values: &BTreeMap<String, String>, text: &mut String) {
        match self {
            Self::Text(literal) => text.push_str(literal),
            Self::Reference(reference) => text.push_str(&reference.value(values)),
        }
    }
}

impl Reference {
    fn value(&self, values: &BTreeMap<String, String>) -> String {
        let value = values.get(&self.name).map(String::as_str).unwrap_or_default();
        match self.function {
            parse::Function::Default if value.is_empty() => {
                let mut text = String::new();
                for part in &self.arguments {
                    part.expand(values, &mut text);
                }
                text
            }
            parse::Function::Default => value.to_owned(),
            parse::Function::Length => value.len().to_string(),
            parse::Function::Lower => value.to_lowercase(),
            parse::Function::Upper => value.to_uppercase(),
            parse::Function::LowerFirst => first(value, |character| character.to_lowercase().collect()),
            parse::Function::UpperFirst => first(value, |character| character.to_uppercase().collect()),
        }
    }
}

fn first(value: &str, change: impl Fn(char) -> String) -> String {
    let mut characters = value.chars();
    match characters.next() {
        Some(character) => change(character) + characters.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;

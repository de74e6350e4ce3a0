//! Variables of provider manifests: `${VAR}`, `${VAR:=default}` and the other forms that clusterctl understands.
//!
//! The rules are clusterctl's (`cmd/clusterctl/client/yamlprocessor` of `kubernetes-sigs/cluster-api`, which uses
//! `drone/envsubst`), so that a manifest means here what it means there. What stands in `${…}` is the dialect that Flux has
//! too, [`kustomize_rs::flux::Template`]; clusterctl adds that
//! - white space inside the braces is dropped, as in `${ VAR }`;
//! - a variable without a value whose **first** occurrence has no default (or an empty one, `${VAR:=}`) is missing, and
//!   that is an error for the whole manifest. Arguments of every operation count as a default there.
//!
//! Only provider manifests are substituted. Flux's custom resource definitions hold `${var:=default}` as text.

mod spaces;

use std::collections::{BTreeMap, BTreeSet};

use kustomize_rs::flux::{Expression, Missing, Part, Template, TemplateError};

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
    let template = read(source)?;
    let mut seen = BTreeSet::new();
    let first = expressions(&template).filter(|expression| seen.insert(expression.variable.as_str()));
    let variable = |expression: &Expression| Variable {
        name: expression.variable.clone(),
        line: expression.line,
        default: has_default(expression).then(|| default_text(expression)),
    };
    Ok(first.map(variable).collect())
}

/// `source` with every variable replaced by its value in `values`, its default or, when it is there and empty without a
/// default, by nothing.
///
/// # Errors
/// [`VariableError`] when a value is missing or a `${…}` cannot be read; nothing is replaced then.
pub fn substitute(source: &str, values: &BTreeMap<String, String>) -> Result<String, VariableError> {
    let template = read(source)?;
    let mut seen = BTreeSet::new();
    let mut missing: Vec<MissingVariable> = expressions(&template)
        .filter(|expression| seen.insert(expression.variable.as_str()))
        .filter(|expression| !values.contains_key(&expression.variable) && !has_default(expression))
        .map(|expression| MissingVariable { name: expression.variable.clone(), line: expression.line })
        .collect();
    if !missing.is_empty() {
        missing.sort();
        return Err(VariableError::Missing(missing));
    }
    let value_of = |name: &str| values.get(name).map(String::as_str);
    template.expand(&value_of, Missing::IsEmpty).map_err(|error| malformed(&error))
}

fn read(source: &str) -> Result<Template, VariableError> {
    Template::parse(&spaces::without(source)).map_err(|error| malformed(&error))
}

fn malformed(error: &TemplateError) -> VariableError {
    let message = format!("{} in `{}`", error.kind, error.expression);
    VariableError::Malformed { line: error.line, column: error.column, message }
}

/// The expressions that are not inside of others, in their order.
fn expressions(template: &Template) -> impl Iterator<Item = &Expression> {
    template.parts().iter().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Expression(expression) => Some(expression),
    })
}

fn has_default(expression: &Expression) -> bool {
    !expression.arguments.is_empty()
}

/// The default as text; a variable inside it stays as `${NAME}`.
fn default_text(expression: &Expression) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Expression(expression) => format!("${{{}}}", expression.variable),
    };
    expression.arguments.iter().map(part).collect()
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

#[cfg(test)]
mod tests;

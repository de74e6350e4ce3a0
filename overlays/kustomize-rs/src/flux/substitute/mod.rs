//! `${name}` and its other forms, as Flux replaces them in built objects (`spec.postBuild`).
//!
//! The dialect is that of `github.com/fluxcd/pkg/envsubst`, a fork of `drone/envsubst`; its forms are the variants of
//! [`Operation`]. [`Template`] serves any text; what is done to objects is in [`super::build`].

mod allowance;
mod expression;
mod glob;
mod operations;
mod read;
pub(super) mod resources;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;

use allowance::{Allowance, Exhausted};
pub use expression::{Expression, Operation, Part};
pub use template::Template;

/// What a variable without a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// The empty text.
    #[default]
    IsEmpty,
    /// An error, unless the expression has a default (strict mode).
    IsAnError,
}

/// Why a template cannot be read or expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind} in `{expression}`")]
pub struct TemplateError {
    /// What is wrong.
    pub kind: TemplateErrorKind,
    /// The beginning of the expression, at most 40 characters.
    pub expression: String,
    /// Line of the expression in the template, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// Class of a [`TemplateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// No valid name follows `${`.
    NoName,
    /// Behind the name stands something that begins no operation, `-` for example.
    UnknownOperation(char),
    /// The text ends in the expression.
    NoClosingBrace,
    /// Something stands before the closing brace.
    Leftover,
    /// The operation needs a text, and there is none.
    EmptyArgument,
    /// The substring begins with something other than ASCII.
    NoOffset,
    /// `${name/text}` without a second `/`.
    NoReplacement,
    /// Expressions inside of expressions inside of expressions.
    TooDeep,
    /// The variable has no value, in strict mode.
    NotSet,
    /// What comes out is larger, or takes longer, than allowed.
    TooExpensive,
    /// A substring has cut a character in two.
    NotUtf8,
}

impl fmt::Display for TemplateErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoName => "no variable name",
            Self::UnknownOperation(character) => return write!(formatter, "unknown operation `{character}`"),
            Self::NoClosingBrace => "no closing brace",
            Self::Leftover => "something before the closing brace that the operation does not take",
            Self::EmptyArgument => "an empty argument",
            Self::NoOffset => "a substring that does not begin with a number",
            Self::NoReplacement => "no second `/`",
            Self::TooDeep => "too many expressions inside of one another",
            Self::NotSet => "a variable without a value",
            Self::TooExpensive => "too much work or text",
            Self::NotUtf8 => "a character cut in two",
        };
        formatter.write_str(text)
    }
}

impl TemplateErrorKind {
    /// What a person can do.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::UnknownOperation('-' | '+' | '?') => "defaults are written `${name:-default}` or `${name:=default}`",
            Self::NotSet => "add it to `spec.postBuild.substitute`, or give it a default: `${name:=default}`",
            Self::TooDeep | Self::TooExpensive => "make the expression or the value simpler",
            Self::NotUtf8 => "offsets count bytes, not characters",
            _ => "write `$${` for a `${` that is meant as text",
        }
    }
}

impl Template {
    /// Replaces all expressions by what they make of the values that `value_of` knows.
    ///
    /// ```
    /// use kustomize_rs::flux::{Missing, Template};
    ///
    /// let template = Template::parse("${name^}, ${greeting:=hello} $${name}")?;
    /// let text = template.expand(&|name| (name == "name").then_some("ada"), Missing::IsEmpty)?;
    /// assert_eq!(text, "Ada, hello ${name}");
    /// # Ok::<(), kustomize_rs::flux::TemplateError>(())
    /// ```
    ///
    /// # Errors
    /// A variable without value where that is an error, a character cut in two, or more than 64 MiB.
    pub fn expand<'v>(
        &self,
        value_of: &dyn Fn(&str) -> Option<&'v str>,
        missing: Missing,
    ) -> Result<String, TemplateError> {
        self.expand_within(value_of, missing, &Allowance::default())
    }

    fn expand_within<'v>(
        &self,
        value_of: &dyn Fn(&str) -> Option<&'v str>,
        missing: Missing,
        allowance: &Allowance,
    ) -> Result<String, TemplateError> {
        let expansion = Expansion { value_of, missing, allowance };
        let (mut text, mut last) = (Vec::new(), None);
        for part in &self.parts {
            match part {
                Part::Text(part) => text.extend_from_slice(part.as_bytes()),
                Part::Expression(expression) => {
                    text.extend(expansion.expression(expression)?);
                    let within = allowance.grow(0, text.len());
                    within.map_err(|Exhausted| failed(expression, TemplateErrorKind::TooExpensive))?;
                    last = Some(expression);
                }
            }
        }
        String::from_utf8(text).map_err(|_| match last {
            Some(expression) => failed(expression, TemplateErrorKind::NotUtf8),
            None => TemplateError { kind: TemplateErrorKind::NotUtf8, expression: String::new(), line: 1, column: 1 },
        })
    }
}

struct Expansion<'e, 'v> {
    value_of: &'e dyn Fn(&str) -> Option<&'v str>,
    missing: Missing,
    allowance: &'e Allowance,
}

impl Expansion<'_, '_> {
    /// Arguments come first, so that a default that is not needed can fail too, as in Go.
    fn expression(&self, expression: &Expression) -> Result<Vec<u8>, TemplateError> {
        let too_expensive = |Exhausted| failed(expression, TemplateErrorKind::TooExpensive);
        let (mut arguments, mut size) = (Vec::new(), 0);
        for argument in &expression.arguments {
            let text = match argument {
                Part::Text(text) => text.clone().into_bytes(),
                Part::Expression(inner) => self.expression(inner)?,
            };
            size += text.len();
            self.allowance.grow(text.len(), size).map_err(too_expensive)?;
            arguments.push(text);
        }
        let value = (self.value_of)(&expression.variable);
        let may_be_missing = self.missing == Missing::IsEmpty || expression.operation == Operation::Default;
        if value.is_none() && !may_be_missing {
            return Err(failed(expression, TemplateErrorKind::NotSet));
        }
        operations::apply(expression.operation, value.unwrap_or_default().as_bytes(), &arguments, self.allowance)
            .map_err(too_expensive)
    }
}

fn failed(expression: &Expression, kind: TemplateErrorKind) -> TemplateError {
    let (line, column) = (expression.line, expression.column);
    TemplateError { kind, expression: format!("${{{}…}}", expression.variable), line, column }
}

//! Texts of announcements with `{variables}` in them.

use std::fmt;
use std::str::FromStr;

use domain::nearest;
use serde::{Serialize, Serializer};

/// What a variable of a template stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementVariable {
    /// The cluster.
    Cluster,
    /// The rollout's id.
    Rollout,
    /// The stage; `rollout` where all of it is meant.
    Stage,
    /// What is told, such as `held`.
    Kind,
    /// Why, on one line.
    Reason,
    /// What helps.
    Help,
    /// What people will feel.
    Impact,
    /// How long it takes, as far as that is known.
    Takes,
    /// When the window opens, where one is waited for.
    Opens,
    /// The commit, where one is told of.
    Commit,
    /// Where people are asked.
    Asked,
}

impl AnnouncementVariable {
    const ALL: [(&'static str, Self); 11] = [
        ("cluster", Self::Cluster),
        ("rollout", Self::Rollout),
        ("stage", Self::Stage),
        ("kind", Self::Kind),
        ("reason", Self::Reason),
        ("help", Self::Help),
        ("impact", Self::Impact),
        ("takes", Self::Takes),
        ("opens", Self::Opens),
        ("commit", Self::Commit),
        ("asked", Self::Asked),
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(AnnouncementVariable),
}

/// A text with variables: `{cluster} is held: {reason}`. A brace of its own is written twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncementTemplate {
    text: String,
    parts: Vec<Part>,
}

impl AnnouncementTemplate {
    /// The text, with what the variables stand for in their places.
    pub fn render(&self, value: impl Fn(AnnouncementVariable) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable(variable) => value(*variable),
        };
        self.parts.iter().map(part).collect()
    }
}

/// A text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It names a variable that there is not.
    #[error("{name:?} is not a valid variable; {help}")]
    Unknown {
        /// The name.
        name: String,
        /// What was meant, perhaps.
        help: String,
    },
    /// A brace has no other one.
    #[error("a brace has no other one: a brace of the text itself is written twice")]
    Brace,
}

impl FromStr for AnnouncementTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut parts, mut plain, mut signs) = (Vec::new(), String::new(), text.chars().peekable());
        while let Some(sign) = signs.next() {
            match sign {
                '{' | '}' if signs.peek() == Some(&sign) => {
                    plain.push(sign);
                    signs.next();
                }
                '{' => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    let mut name = String::new();
                    loop {
                        match signs.next() {
                            Some('}') => break,
                            Some('{') | None => return Err(TemplateError::Brace),
                            Some(sign) => name.push(sign),
                        }
                    }
                    parts.push(Part::Variable(variable(&name)?));
                }
                '}' => return Err(TemplateError::Brace),
                sign => plain.push(sign),
            }
        }
        parts.push(Part::Text(plain));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn variable(name: &str) -> Result<AnnouncementVariable, TemplateError> {
    let known = AnnouncementVariable::ALL.map(|(name, _)| name);
    let found = AnnouncementVariable::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, variable)| variable).ok_or_else(|| TemplateError::Unknown {
        name: name.to_owned(),
        help: match nearest(name, &known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("variables are: {}", known.join(", ")),
        },
    })
}

impl fmt::Display for AnnouncementTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for AnnouncementTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<String, TemplateError> {
        let template: AnnouncementTemplate = text.parse()?;
        Ok(template.render(|variable| format!("<{variable:?}>")))
    }

    #[test]
    fn variables_give_way_to_what_they_stand_for() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{cluster}: {stage} {kind}", "<Cluster>: <Stage> <Kind>"),
            ("{{{reason}}} }}{{", "{<Reason>} }{"),
        ] {
            assert_eq!(rendered(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unknown_variables_and_single_braces_are_refused() {
        for text in ["{", "}", "{cluster", "{clu{ster}", "a } b"] {
            assert_eq!(rendered(text), Err(TemplateError::Brace), "{text}");
        }
        assert!(rendered("{clustr}").unwrap_err().to_string().contains("did you mean \"cluster\""));
        assert!(rendered("{}").unwrap_err().to_string().contains("variables are: cluster"));
    }
}

//! The name of a field, with elements of lists by their key instead of their place.

use std::fmt;

/// A step of the way to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Name(String),
    /// An element of a list, by its `path` or its `name`.
    Key(String),
}

/// The way to a field: `files[/etc/kubernetes/manifests/kube-vip.yaml].content`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field(Vec<Step>);

impl Field {
    pub(super) fn named(&self, name: &str) -> Self {
        self.with(Step::Name(name.to_owned()))
    }

    pub(super) fn keyed(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    /// The path of the file, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Step::Name(list), Step::Key(path)] if list == "files" => Some(path),
            _ => None,
        }
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The words of the way. A list of names with values and a map of the same read alike.
    pub(super) fn words(&self) -> Vec<&str> {
        self.0
            .iter()
            .map(|step| match step {
                Step::Name(word) | Step::Key(word) => word.as_str(),
            })
            .collect()
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Name(name) if place == 0 => formatter.write_str(name)?,
                Step::Name(name) => write!(formatter, ".{name}")?,
                Step::Key(key) => write!(formatter, "[{key}]")?,
            }
        }
        if self.0.is_empty() { formatter.write_str("specification") } else { Ok(()) }
    }
}

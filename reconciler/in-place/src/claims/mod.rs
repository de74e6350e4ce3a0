//! Which differences of a machine the node upgrader can bring about, and which not.
//!
//! [`Claims`] compares two states field by field. What its rules allow is claimed; everything else is rejected by its
//! name, and then the machine cannot be upgraded in place: Cluster API has no way in between. The hook and the plan ask
//! the same function.

mod difference;
mod field;
mod patch;
mod rules;

use std::fmt;

use serde_json::Value;

use crate::hooks::{CanUpdate, Hook, Objects};

pub use field::Field;
pub use patch::apply;

/// What a machine consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `Machine`.
    Machine,
    /// The provider's machine.
    Infrastructure,
    /// `KubeadmConfig`.
    Bootstrap,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Infrastructure, Self::Bootstrap];
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Machine => "machine",
            Self::Infrastructure => "infrastructure machine",
            Self::Bootstrap => "bootstrap configuration",
        })
    }
}

/// The specifications of a machine's parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Specifications {
    /// `spec` of a `Machine`.
    pub machine: Value,
    /// `spec` of the provider's machine.
    pub infrastructure: Value,
    /// `spec` of a `KubeadmConfig`; `Null` where there is none.
    pub bootstrap: Value,
}

impl Specifications {
    fn of(objects: &Objects, place: &str) -> Self {
        let at = |object: &Value| object.pointer(place).cloned().unwrap_or_default();
        Self {
            machine: at(&objects.machine),
            infrastructure: at(&objects.infrastructure),
            bootstrap: objects.bootstrap.as_ref().map(at).unwrap_or_default(),
        }
    }

    fn part(&self, part: Part) -> &Value {
        match part {
            Part::Machine => &self.machine,
            Part::Infrastructure => &self.infrastructure,
            Part::Bootstrap => &self.bootstrap,
        }
    }
}

/// What the provider's machines are made of by `template` of their template: labels and annotations too. What is no template
/// stays what it is.
#[must_use]
pub fn template_of_machines(template: &Value) -> Value {
    let Some(mut made) = template.get("spec").cloned() else { return template.clone() };
    if let (Some(made), Some(metadata)) = (made.as_object_mut(), template.get("metadata")) {
        made.insert("metadata".to_owned(), metadata.clone());
    }
    made
}

/// A difference that cannot be brought about in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The part that it is in.
    pub part: Part,
    /// Its field.
    pub field: Field,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of the {} {}", self.field, self.part, self.reason)
    }
}

/// What differs between two states of a machine: what is claimed, and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    claimed: Vec<(Part, Field)>,
    rejected: Vec<Rejected>,
    patches: Vec<(Part, Value)>,
}

impl Claims {
    /// Compares two states of a machine.
    #[must_use]
    pub fn new(current: &Specifications, desired: &Specifications) -> Self {
        let mut claims = Self::default();
        let sides = rules::Sides::of(current, desired);
        for part in Part::ALL {
            let rule =
                |field: &Field, from: Option<&Value>, to: Option<&Value>| rules::judge(part, field, from, to, &sides);
            let compared = difference::compare(current.part(part), desired.part(part), &rule);
            claims.claimed.extend(compared.claimed.into_iter().map(|field| (part, field)));
            let rejected = compared.rejected.into_iter();
            claims.rejected.extend(rejected.map(|(field, reason)| Rejected { part, field, reason }));
            if let Some(patch) = patch::between(current.part(part), &compared.patched) {
                claims.patches.push((part, patch));
            }
        }
        claims
    }

    /// Compares the states of a request.
    #[must_use]
    pub fn of_request(request: &CanUpdate) -> Self {
        let place = match request.hook {
            Hook::CanUpdateMachineSet => "/spec/template/spec",
            Hook::Discovery | Hook::CanUpdateMachine | Hook::UpdateMachine => "/spec",
        };
        Self::new(&Specifications::of(&request.current, place), &Specifications::of(&request.desired, place))
    }

    /// What is brought about in place.
    #[must_use]
    pub fn claimed(&self) -> &[(Part, Field)] {
        &self.claimed
    }

    /// What is not; in place is possible when this is empty.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// The merge patch that brings the current specification of a part to what is claimed; none when nothing is.
    #[must_use]
    pub fn patch(&self, part: Part) -> Option<&Value> {
        self.patches.iter().find(|(of, _)| *of == part).map(|(_, patch)| patch)
    }

    /// What is rejected, as one text; empty when nothing is.
    #[must_use]
    pub fn why(&self) -> String {
        let reasons: Vec<String> = self.rejected.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    }
}

#[cfg(test)]
mod tests;

//! Runtime Extensions, which Cluster API asks by its hooks.

use serde::{Deserialize, Serialize};

/// The hooks by which Cluster API asks for upgrades in place.
pub const IN_PLACE_HOOKS: [&str; 3] = ["CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"];

/// What is there to be asked before machines are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeExtensions {
    /// Extensions that answer any of [`IN_PLACE_HOOKS`], or are not known to Cluster API yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<RuntimeExtension>,
    /// Managers of Cluster API whose feature gate for upgrades in place is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managers_without: Vec<String>,
}

/// One `ExtensionConfig`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeExtension {
    /// Its name.
    pub name: String,
    /// Those of [`IN_PLACE_HOOKS`] that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
    /// The namespaces of the clusters that were read for which it is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Why Cluster API does not know what it answers; none where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undiscovered: Option<String>,
}

impl RuntimeExtensions {
    /// The extensions that answer a hook for a namespace.
    pub fn answering<'a, 'b>(
        &'a self,
        hook: &'b str,
        namespace: &'b str,
    ) -> impl Iterator<Item = &'a RuntimeExtension> + use<'a, 'b> {
        self.extensions.iter().filter(move |known| {
            let is_asked = known.namespaces.iter().any(|other| other == namespace);
            is_asked && known.hooks.iter().any(|other| other == hook)
        })
    }

    /// Of each namespace the extensions of which Cluster API could take but one, with what they answer alike.
    #[must_use]
    pub fn rivals(&self, namespace: &str) -> Option<(Vec<&str>, Vec<&'static str>)> {
        let is_rivalled = |hook: &&'static str| self.answering(hook, namespace).nth(1).is_some();
        let hooks: Vec<&'static str> = IN_PLACE_HOOKS.into_iter().filter(is_rivalled).collect();
        let mut names: Vec<&str> = Vec::new();
        for hook in &hooks {
            names.extend(self.answering(hook, namespace).map(|known| known.name.as_str()));
        }
        names.sort_unstable();
        names.dedup();
        (!hooks.is_empty()).then_some((names, hooks))
    }
}

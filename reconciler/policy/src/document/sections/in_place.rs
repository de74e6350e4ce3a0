//! `inPlace` of `stepgate.yaml`: how machines are upgraded that stay.

use schemars::JsonSchema;
use yaml::Node;

use crate::document::read::Reader;
use crate::document::schema::every_field_is_optional;
use crate::{InPlaceDriver, MachinePolicy, OnDecline};

/// `inPlace` as written at one level; what is absent comes from the next weaker level.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline, rename_all = "camelCase", transform = every_field_is_optional)]
pub struct InPlaceSettings {
    /// Whether the stage is held, or others take the machines' place.
    pub on_decline: Option<OnDecline>,
    /// Who goes from machine to machine. Where nothing is said, Cluster API, unless the specification names the
    /// controller.
    pub driver: Option<InPlaceDriver>,
}

impl InPlaceSettings {
    pub(in crate::document) fn over(&self, weaker: &mut MachinePolicy) {
        weaker.on_decline = self.on_decline.unwrap_or(weaker.on_decline);
        weaker.driver = self.driver.or(weaker.driver);
    }
}

impl Reader<'_> {
    pub(in crate::document) fn in_place(&mut self, node: &Node) -> InPlaceSettings {
        let mut settings = InPlaceSettings::default();
        for entry in self.mapping(node, "inPlace").into_iter().flatten() {
            match entry.key.as_str() {
                "onDecline" => {
                    let choices = [OnDecline::Hold, OnDecline::Replace].map(|choice| (choice.as_str(), choice));
                    settings.on_decline = self.choice(&entry.value, "inPlace.onDecline", &choices);
                }
                "driver" => {
                    let choices = InPlaceDriver::ALL.map(|choice| (choice.as_str(), choice));
                    settings.driver = self.choice(&entry.value, "inPlace.driver", &choices);
                }
                _ => self.unknown(entry, "inPlace", &["onDecline", "driver"]),
            }
        }
        settings
    }

    /// A repository without a tag: that is the release.
    pub(in crate::document) fn upgraders(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node, "upgraders")?;
        let is_known = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, '-' | '.' | '_' | '/');
        let (host, path) = text.split_once('/').unwrap_or_default();
        let has_host = host.split_once(':').map_or(host, |(name, _)| name).chars().all(is_known) && !host.is_empty();
        let has_path = path.split('/').all(|part| !part.is_empty() && part.chars().all(is_known));
        if has_host && has_path {
            return Some(text);
        }
        let hint = "HOST/PATH without a tag, such as registry.example.com/stepgate/node-upgrader".to_owned();
        self.problem(node.span, format!("upgraders: {text:?} is not a valid repository of images"), Some(hint));
        None
    }
}

//! `tanzu` of `stepgate.yaml`.

use yaml::Node;

use crate::document::read::Reader;
use crate::document::types::{TanzuInfrastructure, TanzuMode, TanzuPolicy};

const FIELDS: [&str; 4] = ["mode", "infrastructure", "unmanaged", "machineTimeout"];

impl Reader<'_> {
    /// How clusters of Tanzu are carried out; none where nothing is said.
    pub(in crate::document) fn tanzu(&mut self, node: &Node) -> Option<TanzuPolicy> {
        let mapping = self.mapping(node, "tanzu")?;
        let mut policy = TanzuPolicy::default();
        for entry in mapping {
            let node = &entry.value;
            match entry.key.as_str() {
                "mode" => {
                    let choices = [("front", TanzuMode::Front), ("render", TanzuMode::Render)];
                    policy.mode = self.choice(node, "tanzu.mode", &choices).unwrap_or_default();
                }
                "infrastructure" => {
                    let choices =
                        [("vsphere", TanzuInfrastructure::Vsphere), ("in-memory", TanzuInfrastructure::InMemory)];
                    policy.infrastructure = self.choice(node, "tanzu.infrastructure", &choices).unwrap_or_default();
                }
                "unmanaged" => policy.unmanaged = self.texts(node, "tanzu.unmanaged"),
                "machineTimeout" => {
                    let wanted = self.duration(node, "tanzu.machineTimeout");
                    policy.machine_timeout = wanted.unwrap_or(policy.machine_timeout);
                }
                _ => self.unknown(entry, "tanzu", &FIELDS),
            }
        }
        Some(policy)
    }
}

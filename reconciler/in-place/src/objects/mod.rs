//! The objects of in-place upgrades, `inplace.stepgate.dev/v1alpha1`: one for each group of machines, and one for each
//! node.
//!
//! Architecture Invariant: an object is bound to its target. What it says of another version or another machine counts
//! for nothing.

mod answer;
mod condition;
mod group;
mod lease;
mod node;

use serde::{Deserialize, Serialize};

pub use answer::{NodeAnswer, answer};
pub use condition::Condition;
pub(crate) use condition::{Standing, conditions};
pub use group::{GroupKind, GroupUpgrade, GroupUpgradeSpec, GroupUpgradeStatus};
pub use lease::{Lease, OUR_WORDS, PAUSED, paused_words};
pub use node::{NodePhase, NodeUpgrade, NodeUpgradeSpec, NodeUpgradeStatus, StepState, StepStatus};

/// API group of all three kinds.
pub const GROUP: &str = "inplace.stepgate.dev";

/// Version of all three kinds.
pub const VERSION: &str = "v1alpha1";

/// Group and version.
pub const API_VERSION: &str = "inplace.stepgate.dev/v1alpha1";

/// The ConfigMap that names the upgrader's image of each version, in the namespace of the Clusters that it is for: the key
/// is the version as machines say it, the value an image, and behind it the architectures that it is built for.
pub const UPGRADERS: &str = "in-place-upgraders";

/// On an owner of machines: who upgrades them. [`CONTROLLER`] is its only value.
pub const STRATEGY: &str = "inplace.stepgate.dev/strategy";

/// Our controller upgrades the machines while their owner is paused.
pub const CONTROLLER: &str = "controller";

/// On a paused object: the lease under which it is paused.
pub const LEASE: &str = "inplace.stepgate.dev/pause";

/// On a failed `NodeKubeadmUpgrade`: any new value has it tried again.
pub const RETRY: &str = "inplace.stepgate.dev/retry";

/// What a node does for its cluster, as `stepgate-node` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The control-plane node that is upgraded before all others.
    FirstControlPlane,
    /// Another control-plane node.
    ControlPlane,
    /// No control plane.
    Worker,
}

impl Role {
    /// As on the command line of `stepgate-node`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstControlPlane => "first-control-plane",
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

/// An object by name, and which one of that name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamedObject {
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// A name of an object with its target in it: letters that names may not have become `-`.
fn name_for(object: &str, version: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '.';
    let version: String = version.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect();
    format!("{object}-{version}")
}

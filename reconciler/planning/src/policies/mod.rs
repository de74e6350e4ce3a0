//! The policies that count besides the newest: whoever pushes does not lower the bar that judges the push.

mod before;
mod confirm;
#[cfg(test)]
mod interleavings;

pub use before::{Before, Befores, Field};
pub use confirm::{Change, Pushed, asks_about_wave, changes, confirmations, may_ask_people};

/// Stages by which settings are compared that may differ from stage to stage.
const STAGES: [&str; 12] = [
    "preflight",
    "backup",
    "bundle",
    "cert-manager",
    "capi",
    "eks-a",
    "cilium",
    "flux",
    "etcd",
    "control-plane",
    "workers",
    "verify",
];

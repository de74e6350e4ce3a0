//! One violation of every clause.

mod etcd;
mod flux;
mod machines;
mod objects;
mod workloads;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rollout::{Condition, ConditionStatus, Observation};

/// What breaks, and what the reason has to mention.
pub type Violation = (&'static str, fn(&mut Observation), &'static str);

/// All of them.
pub static VIOLATIONS: LazyLock<Vec<Violation>> =
    LazyLock::new(|| [flux::FLUX, workloads::WORKLOADS, objects::OBJECTS, etcd::ETCD, machines::MACHINES].concat());

pub fn set(conditions: &mut BTreeMap<String, Condition>, name: &str, status: ConditionStatus) {
    conditions.get_mut(name).unwrap().status = status;
}

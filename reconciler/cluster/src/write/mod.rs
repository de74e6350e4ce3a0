//! What is done to a cluster: apply, back up, pause, lead, show.

pub(crate) mod apply;
pub(crate) mod backup;
pub(crate) mod certificate;
pub(crate) mod cluster_act;
pub(crate) mod etcd;
pub(crate) mod force;
pub(crate) mod leadership;
pub(crate) mod lease;
pub(crate) mod machine_order;
pub(crate) mod pause;
pub(crate) mod restart;
pub(crate) mod restore;
pub(crate) mod rollout_resource;

//! What gates look at, read from a cluster.

pub(crate) mod api_requests;
pub(crate) mod drain;
pub(crate) mod dump;
pub(crate) mod emergency;
pub(crate) mod etcd;
pub(crate) mod fargate;
pub(crate) mod found;
pub(crate) mod inspect;
pub(crate) mod known;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod node_upgrade;
pub(crate) mod observe;
pub(crate) mod probe;
pub(crate) mod pull_logins;
pub(crate) mod sidecars;
pub(crate) mod workload;

//! What gates look at, read from a cluster.

pub(crate) mod emergency;
pub(crate) mod etcd;
pub(crate) mod found;
pub(crate) mod inspect;
pub(crate) mod known;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod observe;
pub(crate) mod probe;
pub(crate) mod workload;

//! Reading clusters for what is to be decided, and as little as will do.

pub mod explain;
pub mod flux_precheck;
pub mod observation_cache;
pub mod observe_request;

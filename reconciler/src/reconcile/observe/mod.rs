//! Reading clusters for what is to be decided, and as little as will do.

pub mod eks;
pub mod explain;
pub(in crate::reconcile) mod final_health;
pub mod flux_precheck;
pub mod images;
pub mod observation_cache;
pub mod observe_request;

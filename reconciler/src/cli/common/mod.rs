//! What verbs share: opening the fleet, output, errors and exit codes.

pub(in crate::cli) mod arguments;
pub(in crate::cli) mod completion;
pub(in crate::cli) mod eksctl;
pub(in crate::cli) mod error;
pub(in crate::cli) mod exit;
pub(in crate::cli) mod fleet;
pub(in crate::cli) mod machine;
pub(in crate::cli) mod names;
pub(in crate::cli) mod output;
pub(in crate::cli) mod when;
pub(in crate::cli) mod wrap;

//! What has come together while a build runs.

use std::sync::Arc;

use crate::budget::Budget;
use crate::resource::Resources;
use crate::schema::Configuration;
use crate::transform::variables::Variables;

/// What has come together so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accumulator {
    pub(crate) resources: Resources,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) variables: Variables,
}

impl Accumulator {
    /// Nothing yet, with the budget of the build.
    pub(crate) fn new(budget: &Budget) -> Self {
        let resources = Resources { budget: budget.clone(), ..Resources::default() };
        Self { resources, ..Self::default() }
    }
}

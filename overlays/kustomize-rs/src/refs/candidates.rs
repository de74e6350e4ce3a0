//! The objects that a name may mean, without their trees.

use std::cell::OnceCell;
use std::sync::Arc;

use yaml::Text;

use crate::id::{Gvk, ResourceId};
use crate::resource::Resource;

/// An object that may be meant by a name, without its tree.
pub(super) struct Candidate<'r> {
    pub(super) state: &'r Resource,
    pub(super) current: Arc<ResourceId>,
}

/// All objects, and which of them had a name.
pub(super) struct Candidates<'r> {
    pub(super) all: Vec<Candidate<'r>>,
    /// Names and indices, sorted once somebody asks.
    previous_names: OnceCell<Vec<(&'r str, usize)>>,
}

impl<'r> Candidates<'r> {
    pub(super) fn of(resources: &'r [Resource], names: Vec<Arc<ResourceId>>) -> Self {
        let all: Vec<_> = resources.iter().zip(names).map(|(state, current)| Candidate { state, current }).collect();
        Self { all, previous_names: OnceCell::new() }
    }

    fn previous_names(&self) -> &[(&'r str, usize)] {
        self.previous_names.get_or_init(|| {
            let names = |(index, candidate): (usize, &Candidate<'r>)| {
                candidate.state.previous.iter().map(move |previous| (previous.name.as_str(), index))
            };
            let mut names: Vec<_> = self.all.iter().enumerate().flat_map(names).collect();
            names.sort_unstable();
            names.dedup();
            names
        })
    }

    /// The objects that had the name, in their order.
    pub(super) fn named(&self, name: &str) -> Vec<&Candidate<'r>> {
        let names = self.previous_names();
        let before = names.partition_point(|(known, _)| *known < name);
        let from = names.iter().skip(before);
        from.take_while(|(known, _)| *known == name).filter_map(|(_, index)| self.all.get(*index)).collect()
    }
}

impl Candidate<'_> {
    /// The namespace it began in.
    pub(super) fn original_namespace(&self) -> &str {
        match self.state.previous.first() {
            Some(previous) if previous.namespace.is_empty() => "default",
            Some(previous) => &previous.namespace,
            None => self.current.effective_namespace(),
        }
    }

    /// Says whether `selector` fits it as it was at some time.
    pub(super) fn was_selected(&self, selector: &Gvk) -> bool {
        let any_kind = Gvk { kind: Text::default(), ..selector.clone() };
        let had_kind = |kind: &Text| self.state.previous.iter().any(|previous| previous.kind == *kind);
        let is_kind = if selector.kind.is_empty() { !self.state.previous.is_empty() } else { had_kind(&selector.kind) };
        is_kind && self.current.gvk.is_selected(&any_kind)
    }
}

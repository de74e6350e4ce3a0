//! Scalars that are one in several places.
//!
//! Where kustomize adds a label to several maps of an object, all of them hold the same scalar. Whatever changes the
//! label in one of them later, a patch of `metadata.labels` say, changes it in the selector as well.

use thin_vec::ThinVec;

use yaml::{Node, Value};

/// The shared scalars of one object, with what they hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedScalars {
    known: ThinVec<(u32, Value)>,
    last: u32,
}

impl SharedScalars {
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A number for a scalar that is about to be put into several places.
    pub(crate) fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// The last number that was given.
    pub(crate) fn last(&mut self) -> &mut u32 {
        &mut self.last
    }

    /// Remembers a scalar that is in several places.
    pub(crate) fn remember(&mut self, number: u32, text: &str) {
        self.known.push((number, Value::String(text.into())));
    }

    /// Carries changes of one place to the others. The last change counts, in the order of the keys.
    pub(crate) fn settle(&mut self, object: &mut Node) {
        if self.known.is_empty() {
            return;
        }
        let mut changed = vec![None; self.known.len()];
        let mut count = vec![0_usize; self.known.len()];
        look(object, &mut |node| {
            if let Some(at) = self.known.iter().position(|(number, _)| *number == node.shared())
                && let (Some(count), Some(slot)) = (count.get_mut(at), changed.get_mut(at))
            {
                *count += 1;
                if self.known.get(at).is_some_and(|(_, value)| *value != node.value) {
                    *slot = Some(node.clone());
                }
            }
        });
        if changed.iter().any(Option::is_some) {
            visit(object, &mut |node| {
                let at = self.known.iter().position(|(number, _)| *number == node.shared());
                if let Some(Some(new)) = at.and_then(|at| changed.get(at)) {
                    node.clone_from(new);
                }
            });
        }
        let changes = changed.into_iter().zip(count);
        let known = std::mem::take(&mut self.known).into_iter().zip(changes);
        self.known = known
            .filter(|(_, (_, count))| *count > 1)
            .map(|((number, value), (new, _))| (number, new.map_or(value, |node| node.value)))
            .collect();
    }
}

/// Shows every shared scalar, keys in order.
fn look(node: &Node, each: &mut dyn FnMut(&Node)) {
    match &node.value {
        Value::Sequence(items) => items.iter().for_each(|item| look(item, each)),
        Value::Mapping(mapping) => {
            let mut entries: Vec<_> = mapping.iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            entries.into_iter().for_each(|entry| look(&entry.value, each));
        }
        _ if node.shared() != 0 => each(node),
        _ => {}
    }
}

/// As [`look`], for change, in any order.
fn visit(node: &mut Node, each: &mut dyn FnMut(&mut Node)) {
    let is_shared = node.shared() != 0;
    match &mut node.value {
        Value::Sequence(items) => items.iter_mut().for_each(|item| visit(item, each)),
        Value::Mapping(mapping) => mapping.iter_mut().for_each(|entry| visit(&mut entry.value, each)),
        _ if is_shared => each(node),
        _ => {}
    }
}

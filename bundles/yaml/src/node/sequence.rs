//! Lists that are cheap to copy: a build copies objects more often than it changes them, so a list or a mapping is shared
//! until someone changes it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Node;

/// The items of a list, shared with copies until it is changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sequence(Arc<Vec<Node>>);

impl Deref for Sequence {
    type Target = Vec<Node>;
    fn deref(&self) -> &Vec<Node> {
        &self.0
    }
}

/// Changing a list that is shared copies it first.
impl DerefMut for Sequence {
    fn deref_mut(&mut self) -> &mut Vec<Node> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<Node>> for Sequence {
    fn from(items: Vec<Node>) -> Self {
        Self(Arc::new(items))
    }
}

impl FromIterator<Node> for Sequence {
    fn from_iter<T: IntoIterator<Item = Node>>(items: T) -> Self {
        Self::from(items.into_iter().collect::<Vec<Node>>())
    }
}

impl IntoIterator for Sequence {
    type Item = Node;
    type IntoIter = std::vec::IntoIter<Node>;
    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Sequence {
    type Item = &'a Node;
    type IntoIter = std::slice::Iter<'a, Node>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Sequence {
    type Item = &'a mut Node;
    type IntoIter = std::slice::IterMut<'a, Node>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_copy_leaves_the_original_alone() {
        let original: Sequence = vec![Node::from("a")].into();
        let mut copy = original.clone();
        copy.push(Node::from("b"));
        assert_eq!((original.len(), copy.len()), (1, 2));
    }
}

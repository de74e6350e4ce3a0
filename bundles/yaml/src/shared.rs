//! Texts and lists that are cheap to copy.
//!
//! A build copies objects more often than it changes them: a base is used by many overlays, a patch by many objects.
//! So a short text lies inside of its node, and a long text, a list or a mapping is shared until someone changes it.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smol_str::SmolStr;

use super::node::Node;

/// An unchangeable text; a copy costs no allocation.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(SmolStr);

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(SmolStr::from(text))
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self(SmolStr::new(text))
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<Text> for str {
    fn eq(&self, other: &Text) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, other: &Text) -> bool {
        self == other.as_str()
    }
}

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

    #[test]
    fn texts_compare_as_what_they_say() {
        let long = "a text that is too long to lie inside of its node";
        for text in ["", "short", long] {
            assert_eq!(Text::from(text), text);
            assert_eq!(Text::from(text.to_owned()).to_string(), text);
            assert_eq!(String::from(Text::from(text)), text);
        }
    }
}

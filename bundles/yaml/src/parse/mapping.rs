//! A mapping that is being read: its keys, and what `<<` merges into it.

use foldhash::HashSet;

use super::frame::{Builder, Content, Frame, Key, MappingFrame, error_at};
use crate::error::{YamlError, YamlErrorKind};
use crate::node::{Entry, Mapping, Span, Value};
use crate::rules::Rules;
use crate::text::Text;

impl Builder<'_> {
    pub(super) fn in_flow_mapping(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping(_), is_flow: true, .. }))
    }

    pub(super) fn awaits_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { content: Content::Mapping(mapping), .. }) if mapping.key.is_none())
    }

    pub(super) fn key(&mut self, key: Key, span: Span) -> Result<(), YamlError> {
        let Some(Frame { content: Content::Mapping(mapping), .. }) = self.stack.last_mut() else {
            return Ok(());
        };
        match &key {
            Key::Merge(_) => {
                if std::mem::replace(&mut mapping.merge_seen, true) {
                    return Err(error_at(YamlErrorKind::DuplicateKey, "the merge key `<<` is already there", span));
                }
            }
            Key::Text(text, _) => {
                if let Some(earlier) = mapping.duplicate(text) {
                    if self.rules == Rules::V3RepeatedKeys {
                        mapping.key = Some(Key::Repeated(text.clone(), span));
                        return Ok(());
                    }
                    if self.rules.is_of_manifests() {
                        // kustomize finds this out when it prints the object, if both are still there.
                        mapping.key = Some(Key::TypeMismatch(text.clone(), span));
                        return Ok(());
                    }
                    if matches!(self.rules, Rules::V2 | Rules::Json) {
                        self.duplicates.push((text.clone(), earlier));
                        mapping.entries.retain(|entry| entry.key != *text);
                        mapping.key = Some(key);
                        return Ok(());
                    }
                    let message = format!("the key `{text}` is already on line {}", earlier.line());
                    return Err(error_at(YamlErrorKind::DuplicateKey, message, span));
                }
            }
            Key::Repeated(..) | Key::TypeMismatch(..) => {}
        }
        mapping.key = Some(key);
        Ok(())
    }

    /// Adds what `<<` names: own keys win, then the first of a list.
    pub(super) fn merge(&mut self, mut frame: MappingFrame) -> Result<Mapping, YamlError> {
        if self.rules.is_of_manifests() {
            frame.drop_quoted_merge_key();
        }
        let mut mapping = Mapping::from_entries(frame.entries);
        let mut known: Option<HashSet<Text>> = None;
        for (node, span) in frame.merges {
            let Value::Mapping(merged) = node.value else {
                let message = "the merge key `<<` needs a mapping or a list of mappings";
                return Err(error_at(YamlErrorKind::Value, message, span));
            };
            let known = known.get_or_insert_with(|| mapping.iter().map(|entry| entry.key.clone()).collect());
            for entry in merged {
                if known.insert(entry.key.clone()) {
                    mapping.push_entry(entry);
                }
            }
        }
        Ok(mapping)
    }
}

impl MappingFrame {
    /// kustomize removes the first key that reads `<<`, also one in quotes that merges nothing.
    fn drop_quoted_merge_key(&mut self) {
        let merged_at = self.merges.first().map(|(_, span)| span.start());
        let is_first = |entry: &Entry| merged_at.is_none_or(|start| entry.key_span.start() < start);
        if let Some(at) = self.entries.iter().position(|entry| entry.key == "<<" && is_first(entry)) {
            self.entries.remove(at);
        }
    }

    /// Returns where `key` was before, and remembers it.
    fn duplicate(&mut self, key: &str) -> Option<Span> {
        const LOOK_THROUGH: usize = 24;
        let find = |entries: &[Entry]| entries.iter().find(|entry| entry.key == key).map(|entry| entry.key_span);
        if self.entries.len() < LOOK_THROUGH {
            return find(&self.entries);
        }
        if self.seen.is_empty() {
            self.seen.extend(self.entries.iter().map(|entry| entry.key.clone()));
        }
        if self.seen.insert(key.into()) { None } else { find(&self.entries) }
    }
}
